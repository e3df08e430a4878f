"""The row of the source that a landed row came from."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.storage.layout import Layout
from profile_assets.storage.records import Manifest
from profile_assets.tracing.origin import origin, rows_set_aside
from profile_assets.users.contract import Column, Contract, Keep
from profile_assets.users.land import commit_landing, land
from profile_assets.users.source import SourceSettings

DAY = dt.date(2026, 1, 5)
FILES = {
    "a.csv": ["id,age", "1,30", "2,999", "007,41"],
    "b.csv": ["id,age", "3,35", "1,31", '"é""x",50'],
}


def contract(keep: Keep = "first") -> Contract:
    columns = (Column(name="age", type=pa.int64(), maximum=120),)
    return Contract(id="id", columns=columns, keep=keep, max_quarantine_rate=1.0)


@pytest.fixture
def source(tmp_path: Path) -> SourceSettings:
    folder = tmp_path / "users" / str(DAY)
    folder.mkdir(parents=True)
    for name, lines in FILES.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return SourceSettings(path=str(tmp_path / "users" / "{day}"), format="csv")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path / "data", name="risk")


def landed(source: SourceSettings, layout: Layout, keep: Keep = "first") -> Manifest:
    return commit_landing(layout, DAY, land(source, contract(keep), DAY, layout))


def traced(source: SourceSettings, layout: Layout, user: str, manifest: Manifest, keep: Keep = "first") -> dict:
    aside = rows_set_aside(layout, contract(keep), DAY, user)
    return origin(source, contract(keep), DAY, user, manifest, aside)


@pytest.mark.parametrize(
    ("user", "keep", "file", "row"),
    [
        ("1", "first", "a.csv", 1),
        ("1", "last", "b.csv", 2),
        ("007", "first", "a.csv", 3),
        ("3", "first", "b.csv", 1),
        ('é"x', "first", "b.csv", 3),
    ],
)
def test_a_kept_row_is_found_by_file_and_number(
    source: SourceSettings, layout: Layout, user: str, keep: Keep, file: str, row: int
) -> None:
    found = traced(source, layout, user, landed(source, layout, keep), keep)
    assert (found["state"], found["file"], found["row"]) == ("found", file, row)
    assert found["rows_of_user"] == (2 if user == "1" else 1)


def test_rows_set_aside_are_told_with_their_reason(source: SourceSettings, layout: Layout) -> None:
    manifest = landed(source, layout)
    (above,) = rows_set_aside(layout, contract(), DAY, "2")
    assert (above["file"], above["row"]) == ("a.csv", 2)
    assert above["reason"].startswith("age")
    (repeated,) = rows_set_aside(layout, contract(), DAY, "1")
    assert (repeated["file"], repeated["row"]) == ("b.csv", 2)
    assert rows_set_aside(layout, contract(), DAY, "7") == []
    assert traced(source, layout, "2", manifest)["rows_of_user"] == 1


def test_a_source_that_was_restated_is_said_to_be(source: SourceSettings, layout: Layout) -> None:
    manifest = landed(source, layout)
    path = Path(source.path.replace("{day}", str(DAY))) / "a.csv"
    path.write_text("id,age\n8,1\n007,41\n")
    found = traced(source, layout, "007", manifest)
    assert (found["state"], found["row"]) == ("restated", 2)
    assert "restated since it landed" in found["note"]
    path.write_text("id,age\n8,1\n")
    assert traced(source, layout, "007", manifest)["state"] == "absent"


def test_a_source_that_is_gone_is_said_to_be(source: SourceSettings, layout: Layout) -> None:
    manifest = landed(source, layout)
    for path in Path(source.path.replace("{day}", str(DAY))).iterdir():
        path.unlink()
    found = traced(source, layout, "1", manifest)
    assert found["state"] == "gone"
    assert "can no longer be read" in found["note"]
