"""The table of days as a terminal shows it."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import MARK_FILE, RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.records import FileEntry, Manifest
from profile_assets.storage.stages import seal

PROFILE = """
name = "risk"
time_zone = "UTC"
start_day = {start}
[source]
path = "in/{{day}}"
[contract]
id = "account"
columns = [{{ name = "balance", type = "float64" }}]
[model]
features = [{{ name = "balance" }}]
"""
YESTERDAY = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)


@pytest.fixture
def status(tmp_path):
    """Run the command in so many columns, piped; gives its lines."""

    def run(columns: int | None, *, start: dt.date = dt.date(2026, 1, 1)) -> list[str]:
        (tmp_path / "risk.toml").write_text(PROFILE.format(start=start))
        here = {"PROFILE_DATA": str(tmp_path), "PROFILE_CONFIG": str(tmp_path / "risk.toml")}
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | here
        if columns is not None:
            environment["COLUMNS"] = str(columns)
        command = [sys.executable, "-m", "profile_assets.cli", "status", "--days", "3"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


def put_stage(layout: Layout, stage: str, day: dt.date, rows: int, *, is_pruned: bool = False) -> None:
    """The manifest of a stage of so many rows, without its data."""
    entry = FileEntry(
        name="a.parquet", rows=rows, size_bytes=1, digest="0" * 64, keys=KeySet(count=rows, md5_sum=1), seconds=0.0
    )
    sealed = seal(layout, day, Manifest(stage=stage, day=day.isoformat(), files=(entry,), made_from={}))
    final: Path = layout.stage(stage, day)
    final.parent.mkdir(parents=True, exist_ok=True)
    sealed.folder.replace(final)
    if is_pruned:
        (final / MARK_FILE).write_text('{"format": 1, "at": "2026-01-01T00:00:00+00:00"}')


@pytest.mark.parametrize(
    ("columns", "rows", "shown"), [(80, 3000, "3,000"), (None, 999_999, "999,999"), (80, 123_456_789, "123.46M")]
)
def test_at_80_columns_nothing_is_cut_and_pruned_is_a_mark_that_is_explained(status, tmp_path, columns, rows, shown):
    layout = Layout(root=tmp_path, name="risk")
    for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
        put_stage(layout, stage, YESTERDAY, rows, is_pruned=True)
    lines = status(columns)
    (row,) = [line for line in lines if line.strip().startswith(str(YESTERDAY))]
    assert row.split()[:4] == [str(YESTERDAY), *[f"{shown}*"] * 3]
    assert any(line.startswith("* pruned: ") for line in lines)
    assert "…" not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_a_narrower_terminal_keeps_the_day(status):
    assert sum(line.strip().startswith(str(YESTERDAY)) for line in status(50)) == 1


def test_days_published_before_a_first_day_to_come_are_shown_and_the_mistake_is_named(status, tmp_path):
    layout = Layout(root=tmp_path, name="risk")
    put_stage(layout, RAW_USERS, YESTERDAY, 3000)
    part = layout.offline_part(YESTERDAY)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1")
    lines = status(200, start=dt.date(2999, 1, 1))
    assert any(line.strip(" │").startswith(str(YESTERDAY)) for line in lines)
    assert any(line.startswith("start_day 2999-01-01 is still to come") for line in lines)


def test_where_there_is_room_numbers_and_bundles_are_whole(status, tmp_path):
    put_stage(Layout(root=tmp_path, name="risk"), RAW_USERS, YESTERDAY, 123_456_789)
    assert any("123,456,789" in line and "*" not in line for line in status(200))
