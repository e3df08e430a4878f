"""Point-in-time joins: for each user and moment of a training set, the score as it was then, never a later one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError, DataError
from profile_assets.feature_store.columns import filled, wanted_fields
from profile_assets.feature_store.offline import open_offline
from profile_assets.feature_store.read import newest_day
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import corrupt_errors, is_text, iter_batches, open_parquet
from profile_assets.storage.published import published_days
from profile_assets.storage.stages import ID_COLUMN

MOMENT = "event_timestamp"
SCORE_MOMENT = "score_timestamp"
_LONGEST = dt.timedelta(days=3_660_000)  # ten thousand years: more than the calendar has, and microseconds hold it


@dataclass(frozen=True, kw_only=True)
class _Found:
    """Rows of the table, and the places in the training set that they belong to."""

    rows: pa.Table
    places: np.ndarray


def point_in_time(
    layout: Layout,
    users: pa.Table,
    *,
    columns: Sequence[str] = ("score", "bundle_id"),
    max_age: dt.timedelta | None = None,
    has_to_be_published: bool = False,
) -> pa.Table:
    """`users` (columns user_id and event_timestamp, and any others), row by row with `columns` of the table beside.

    Each row gets the newest day whose event_timestamp is not after its own, nor more than `max_age` before it, and in
    which the user stands; nulls where there is none. `score_timestamp` tells the day's moment. A day is known from its
    end on, as Feast has it; `has_to_be_published` asks that it was published by then, which a backfill never was.
    A day from before a column was exported has nulls there. Memory holds the rows found and one batch of the table.
    ContractError where a column of `users` is not what it has to be, or is named like one that is to be added;
    DataError where no day has one of `columns`.
    """
    fields = _fields(layout, columns)
    ids, moments = _ids(users, [field.name for field in fields]), _moments(users)
    picked = np.full(users.num_rows, -1, dtype=np.int64)
    pieces, total = [pa.schema(fields).empty_table()], 0
    for found in _matches(layout, ids, moments, fields[1:], max_age, has_to_be_published):
        picked[found.places] = np.arange(total, total + len(found.places))
        pieces.append(found.rows)
        total += len(found.places)
    rows = pa.concat_tables(pieces, promote_options="permissive")
    taken = rows.take(pa.array(picked, mask=picked < 0))
    for name in taken.column_names:
        users = users.append_column(name, taken.column(name))
    return users


def _matches(
    layout: Layout,
    ids: pa.ChunkedArray,
    moments: np.ndarray,
    fields: Sequence[pa.Field],
    max_age: dt.timedelta | None,
    has_to_be_published: bool,
) -> Iterator[_Found]:
    """What each day has for whom, oldest day first, so that a newer one overwrites."""
    table = open_offline(layout)
    for day in published_days(layout):
        part = table.part(day)
        for batch in () if part is None else iter_batches(part, columns=_columns_of(part, fields)):
            if not batch.num_rows:
                continue
            # Both moments are the same in all rows of a day.
            then, since = (np.datetime64(batch.column(name)[0].value, "us") for name in (MOMENT, "published_at"))
            is_open = moments >= (max(then, since) if has_to_be_published else then)
            if max_age is not None:
                is_open &= moments - then <= np.timedelta64(min(max_age, _LONGEST))
            places = np.flatnonzero(is_open)
            if not len(places):
                break
            yield _pick(batch, ids.take(pa.array(places)), places, fields)


def _columns_of(part: Path, fields: Sequence[pa.Field]) -> list[str]:
    """What to read of a day: the id, its moments, and of the fields those that it has."""
    with corrupt_errors(part), open_parquet(part) as file:
        names = file.schema_arrow.names
    present = [field.name for field in fields if field.name in names]
    return list(dict.fromkeys([ID_COLUMN, MOMENT, "published_at", *present]))


def _pick(batch: pa.RecordBatch, ids: pa.ChunkedArray, places: np.ndarray, fields: Sequence[pa.Field]) -> _Found:
    rows = pc.index_in(ids, batch.column(ID_COLUMN))
    is_there = rows.is_valid().to_numpy(zero_copy_only=False)
    taken = batch.take(rows.drop_null().combine_chunks())
    names = [SCORE_MOMENT, *(field.name for field in fields)]
    return _Found(rows=pa.table([taken.column(MOMENT), *filled(taken, fields)], names), places=places[is_there])


def _fields(layout: Layout, columns: Sequence[str]) -> list[pa.Field]:
    """The moment of the score and `columns`, with their types. DataError where nothing or none such is published."""
    newest = newest_day(layout)
    part = None if newest is None else open_offline(layout).part(newest)
    if part is None:
        raise DataError(f"nothing of {layout.name} is published", remedy="publish a day first")
    (moment,) = wanted_fields(layout, [MOMENT], [part])
    return [moment.with_name(SCORE_MOMENT), *wanted_fields(layout, columns, [part])]


def _ids(users: pa.Table, added: Sequence[str]) -> pa.ChunkedArray:
    """The training set's ids as text, once its columns are what they have to be."""
    missing = [name for name in (ID_COLUMN, MOMENT) if name not in users.column_names]
    if missing:
        raise ContractError(
            f"the training set has no column {', '.join(missing)}", remedy="name user and moment like that"
        )
    taken = [name for name in added if name in users.column_names]
    if taken:
        raise ContractError(
            f"the training set has columns of its own named {', '.join(taken)}", remedy="give them other names"
        )
    twice = [name for name in (ID_COLUMN, MOMENT) if users.column_names.count(name) > 1]
    if twice:
        raise ContractError(f"the training set has {', '.join(twice)} more than once", remedy="leave one of them")
    column = users.column(ID_COLUMN)
    if not (is_text(column.type) or pa.types.is_string_view(column.type)):
        raise ContractError(
            f"user_id of the training set is {column.type}", remedy="give the ids as text, as they landed"
        )
    return column.cast(pa.string())


def _moments(users: pa.Table) -> np.ndarray:
    """The training set's moments in UTC, datetime64[us] of shape (rows,); what is finer is cut off."""
    column = users.column(MOMENT)
    if not pa.types.is_timestamp(column.type) or column.type.tz is None or column.null_count:
        raise ContractError(
            f"event_timestamp of the training set is {column.type}, or null in places",
            remedy="give every row a timestamp with a time zone",
        )
    try:  # only nanoseconds have digits to cut off; an unsafe cast of seconds would wrap around
        is_finer = column.type.unit == "ns"
        moments: np.ndarray = column.cast(pa.timestamp("us", tz="UTC"), safe=not is_finer).to_numpy()
    except pa.ArrowInvalid as error:
        raise ContractError(
            f"event_timestamp of the training set has moments that microseconds cannot hold: {error}",
            remedy="correct those moments",
        ) from error
    return moments.astype("datetime64[us]")
