"""Point-in-time joins: for each user and moment of a training set, the score as it was then, never a later one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError, DataError
from profile_assets.feature_store.offline import open_offline
from profile_assets.feature_store.read import newest_day, read_day
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.published import published_days
from profile_assets.storage.stages import ID_COLUMN

MOMENT = "event_timestamp"
SCORE_MOMENT = "score_timestamp"


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
    Memory holds the rows found and one batch of the table. ContractError where a column of `users` is not what it has
    to be, or is named like one that is to be added.
    """
    ids, moments = _ids(users, [SCORE_MOMENT, *columns]), _moments(users)
    picked = np.full(users.num_rows, -1, dtype=np.int64)
    pieces, total = [_nothing(layout, columns)], 0
    for found in _matches(layout, ids, moments, columns, max_age, has_to_be_published):
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
    columns: Sequence[str],
    max_age: dt.timedelta | None,
    has_to_be_published: bool,
) -> Iterator[_Found]:
    """What each day has for whom, oldest day first, so that a newer one overwrites."""
    table = open_offline(layout)
    for day in published_days(layout):
        part = table.part(day)
        for batch in iter_batches(part, columns=[ID_COLUMN, MOMENT, "published_at", *columns]) if part else ():
            if not batch.num_rows:
                continue
            # Both moments are the same in all rows of a day.
            then, since = (np.datetime64(batch.column(name)[0].value, "us") for name in (MOMENT, "published_at"))
            is_open = moments >= (max(then, since) if has_to_be_published else then)
            if max_age is not None:
                is_open &= moments - then <= np.timedelta64(max_age)
            places = np.flatnonzero(is_open)
            if not len(places):
                break
            yield _pick(batch, ids.take(pa.array(places)), places, columns)


def _pick(batch: pa.RecordBatch, ids: pa.ChunkedArray, places: np.ndarray, columns: Sequence[str]) -> _Found:
    rows = pc.index_in(ids, batch.column(ID_COLUMN))
    is_there = rows.is_valid().to_numpy(zero_copy_only=False)
    taken = batch.take(rows.drop_null().combine_chunks())
    table = pa.table([taken.column(MOMENT), *(taken.column(name) for name in columns)], [SCORE_MOMENT, *columns])
    return _Found(rows=table, places=places[is_there])


def _nothing(layout: Layout, columns: Sequence[str]) -> pa.Table:
    """No rows, in the types of the newest published day. DataError where there is none."""
    newest = newest_day(layout)
    if newest is None:
        raise DataError(f"nothing of {layout.name} is published", remedy="publish a day first")
    rows = read_day(layout, newest, columns=[MOMENT, *columns]).slice(0, 0)
    return rows.rename_columns([SCORE_MOMENT, *columns])


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
    column = users.column(ID_COLUMN)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ContractError(f"user_id of the training set is {kind}", remedy="give the ids as text, as they landed")
    return column.cast(pa.string())


def _moments(users: pa.Table) -> np.ndarray:
    """The training set's moments in UTC, datetime64[us] of shape (rows,); what is finer is cut off."""
    column = users.column(MOMENT)
    if not pa.types.is_timestamp(column.type) or column.type.tz is None or column.null_count:
        raise ContractError(
            f"event_timestamp of the training set is {column.type}, or null in places",
            remedy="give every row a timestamp with a time zone",
        )
    moments: np.ndarray = column.cast(pa.timestamp("us", tz="UTC"), safe=False).to_numpy()
    return moments.astype("datetime64[us]")
