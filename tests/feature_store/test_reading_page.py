"""The examples of docs/reading.md, run as they stand there, and each held against the table value by value."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.layout import Layout

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"
IDS = ["007", "NA", "Zoë"]
DAYS = [dt.date(2026, 1, 4), dt.date(2026, 1, 5)]


def examples() -> dict[str, list[str]]:
    """The Python of each section, by its heading."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    found = {section.splitlines()[0]: re.findall(r"```python\n(.*?)```", section, flags=re.S) for section in sections}
    return {heading: code for heading, code in found.items() if code}


@pytest.fixture
def layout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROFILE_DATA", raising=False)
    return Layout(root=tmp_path / "data", name="purchase_30d")


@pytest.fixture
def publish_days(pipeline):
    """User n of day d has the score d / 2 + n / 8."""

    def publish(offline="parquet"):
        export = ExportSettings(offline=offline, online=OnlineSettings(expires_hours=1e6))
        for d, day in enumerate(DAYS):
            pipeline.run(day, IDS, values=[d / 2 + n / 8 for n in range(len(IDS))], bundle=f"b-{d}")
            pipeline.publish(day, now=dt.datetime(2026, 1, 5 + d, 2, tzinfo=dt.UTC), export=export)

    return publish


def run(code):
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def rows(table):
    frame = table.to_pandas() if hasattr(table, "to_pandas") else table
    return sorted(zip(frame["user_id"], frame["score"], frame["bundle_id"], frame["route"], strict=True))


def test_every_tool_has_an_example():
    assert list(examples()) == [
        "pandas", "pyarrow", "DuckDB", "Polars", "Delta Lake", "Feast",
        "From Python, with this package", "One user at a time",
    ]  # fmt: skip


@pytest.mark.parametrize("tool", ["pandas", "pyarrow", "DuckDB", "Polars", "From Python, with this package"])
def test_an_example_reads_the_day_as_it_was_published(publish_days, layout, tool):
    publish_days()
    names = run(examples()[tool][0])
    assert rows(names["scores"]) == rows(read_day(layout, DAYS[1]))
    if "rows" in names:
        assert (names["rows"]["007"]["score"], names["rows"]["nobody"]) == (0.5, None)
        assert (names["days"].num_rows, names["known"].num_rows) == (6, 6)


def test_the_example_of_delta_reads_the_day_as_it_was_published(publish_days, layout):
    publish_days("delta")
    names = run(examples()["Delta Lake"][0])
    for name in ("scores", "by_duckdb", "by_polars"):
        assert rows(names[name]) == rows(read_day(layout, DAYS[1]))


def test_the_example_of_a_training_set_joins_the_newest_day(publish_days):
    publish_days()
    joined = run(examples()["From Python, with this package"][1])["joined"]
    assert joined["score"].to_pylist() == [0.5, None]
    assert joined.schema.field("score").type == pa.float32()


def test_the_example_of_a_lookup_finds_the_user(publish_days):
    publish_days()
    answers = run(examples()["One user at a time"][0])["answers"]
    assert (answers["007"].state, answers["007"].score, answers["nobody"].state) == ("found", 0.5, "missing")
