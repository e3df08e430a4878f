"""A table as companies export it: one folder a day, Parquet inside, and a `_SUCCESS` marker once it is complete.

Each folder is built in staging and renamed as a whole: a reader finds a finished day or none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import CorruptError
from profile_assets.storage import atomic
from profile_assets.storage.parquet import ParquetSink, read_footer

PART_FILE = "part-0.parquet"
SUCCESS_FILE = "_SUCCESS"


def day_folder(table: Path, day: dt.date) -> Path:
    return table / f"day={day.isoformat()}"


def is_whole_day(table: Path, day: dt.date) -> bool:
    """Whether the day is there: marked complete, its file not cut short."""
    folder = day_folder(table, day)
    if not (folder / SUCCESS_FILE).exists():
        return False
    try:
        read_footer(folder / PART_FILE)
    except CorruptError:
        return False
    return True


def write_day(
    table: Path, day: dt.date, schema: pa.Schema, rows: Iterable[pa.RecordBatch | pa.Table], *, staging: Path
) -> None:
    """Make `rows` the day's folder. `staging` is this one writer's, on the same file system, outside the table."""
    staged = atomic.empty_folder(day_folder(staging / table.name, day))
    with ParquetSink(staged / PART_FILE, schema) as sink:
        for batch in rows:
            sink.write(batch)
    commit_day(table, day, staged)


def commit_day(table: Path, day: dt.date, staged: Path) -> None:
    """Mark a staged folder complete and rename it to its place."""
    with atomic.disk_errors("cannot write", staged):
        (staged / SUCCESS_FILE).touch()
    atomic.replace_folder(staged, day_folder(table, day))
