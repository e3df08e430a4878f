"""The published table as Python reads it. Nothing here is needed to read it: the table is plain Parquet, or Delta.

A day is read through one open file, so that a reader has the old day or the new one, never a mix. Tables come as Arrow;
`.to_pandas()` makes a frame of one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError
from profile_assets.feature_store.columns import checked_ids, filled, present_names, wanted_fields
from profile_assets.feature_store.offline import OfflineStore, open_offline
from profile_assets.storage.days import as_utc
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import corrupt_errors, iter_batches, open_parquet
from profile_assets.storage.parts import PARTITION_COLUMN
from profile_assets.storage.published import published_days
from profile_assets.storage.stages import ID_COLUMN


def read_day(layout: Layout, day: dt.date, *, columns: Sequence[str] | None = None) -> pa.Table:
    """All published rows of a day, with all of its columns or with `columns`, in that order.

    A column that only other days have is null. DataError where the day is not published, or no day has a column.
    """
    part = _require_part(layout, day)
    return _read(part, None if columns is None else wanted_fields(layout, columns, [part]))


def read_days(
    layout: Layout,
    first: dt.date,
    last: dt.date,
    *,
    columns: Sequence[str] | None = None,
    known_at: dt.datetime | None = None,
) -> pa.Table:
    """The rows of the days `first` to `last` that are published, oldest first, with the day in the column `ds`.

    Where the days differ in their columns, a day has nulls in those that it lacks. With `known_at`, only what was
    published by that moment. A day that was replaced since is left out of a Parquet table, which keeps no history; a
    Delta table gives the rows of then. DataError where nothing is left, or no day has a column that is asked for.
    """
    table = open_offline(layout)
    moment = None if known_at is None else as_utc(known_at)
    parts = [
        (day, part)
        for day in _days(layout, table, known_at=moment)
        if first <= day <= last and (part := table.part(day, known_at=moment)) is not None
    ]
    if not parts:
        known = "" if moment is None else f" as it was known at {moment.isoformat()}"
        raise DataError(f"nothing of {layout.name} is published from {first} to {last}{known}", remedy="publish a day")
    fields = None if columns is None else _fields(layout, columns, [part for _, part in parts])
    tables = [_with_day(_read(part, fields), day) for day, part in parts]
    rows = pa.concat_tables(tables, promote_options="default")
    return rows if columns is None or PARTITION_COLUMN not in columns else rows.select(list(columns))


def newest_day(layout: Layout) -> dt.date | None:
    """The newest published day, by date and not by when it was published; None where nothing is published."""
    return max(published_days(layout), default=None)


def lookup(layout: Layout, user_id: str, day: dt.date | None = None) -> dict[str, Any] | None:
    """The published row of a user on a day, by default the newest; None for a user who is not in it."""
    return lookup_many(layout, [user_id], day)[user_id]


def lookup_many(layout: Layout, ids: Collection[str], day: dt.date | None = None) -> dict[str, dict[str, Any] | None]:
    """The published rows of some users on a day, by default the newest, from one pass over the table's file.

    DataError for an id that is no text, and where nothing is published.
    """
    day = day or newest_day(layout)
    if day is None:
        raise DataError(f"nothing of {layout.name} is published", remedy="publish a day first")
    wanted = pa.array(checked_ids(ids), pa.string())
    found: dict[str, dict[str, Any] | None] = dict.fromkeys(ids)
    for batch in iter_batches(_require_part(layout, day)):
        for row in batch.filter(pc.is_in(batch.column(ID_COLUMN), wanted)).to_pylist():
            found[row[ID_COLUMN]] = {"day": day, **row}
    return found


def _days(layout: Layout, table: OfflineStore, *, known_at: dt.datetime | None) -> Iterator[dt.date]:
    """The days to look for: what is published now, or all that the table ever had at that moment."""
    yield from (published_days(layout) if known_at is None else table.days(known_at=known_at))


def _fields(layout: Layout, columns: Sequence[str], parts: Sequence[Path]) -> list[pa.Field]:
    """Those to read of the files; the day is in none of them."""
    plain = columns if isinstance(columns, str) else [name for name in columns if name != PARTITION_COLUMN]
    return wanted_fields(layout, plain, parts)


def _read(part: Path, fields: Sequence[pa.Field] | None) -> pa.Table:
    with corrupt_errors(part), open_parquet(part) as file:
        if fields is None:
            return file.read().replace_schema_metadata()
        rows = file.read(columns=present_names(file.schema_arrow, fields))
    return pa.table(filled(rows, fields), [field.name for field in fields]) if fields else rows.select([])


def _with_day(table: pa.Table, day: dt.date) -> pa.Table:
    return table.append_column(PARTITION_COLUMN, pa.repeat(pa.scalar(day, pa.date32()), table.num_rows))


def _require_part(layout: Layout, day: dt.date) -> Path:
    part = open_offline(layout).part(day)
    if part is None:
        raise DataError(f"{day} of {layout.name} is not published", remedy=f"publish {day} first")
    return part
