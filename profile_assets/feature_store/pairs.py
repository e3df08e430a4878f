"""The scores of a day beside the landed columns of the same users, batch by batch.

The files of shards and of scores have the same rows in the same order; that is checked id by id, never assumed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import AccountingError
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import iter_batches, open_parquet
from profile_assets.storage.records import FileEntry, Manifest
from profile_assets.storage.routes import ROUTE_COLUMN
from profile_assets.storage.stages import ID_COLUMN


def pairs(
    layout: Layout, day: dt.date, scores: Manifest, shards: Manifest, columns: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
    """The day's scores, and the same users' landed columns where any ride along."""
    landed = {entry.name: entry for entry in shards.files}
    for entry in scores.files:
        scored = _scored(layout.stage(USER_SCORES, day) / entry.name)
        if not columns:
            yield from ((batch, None) for batch in scored)
        else:
            yield from _joined(layout, day, entry, scored, landed.get(entry.name), columns)


def _scored(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a score file; with the route of each where the day was scored incrementally."""
    with open_parquet(path) as file:
        routes = [ROUTE_COLUMN] if ROUTE_COLUMN in file.schema_arrow.names else []
    yield from iter_batches(path, columns=[ID_COLUMN, "score", "bundle_id", *routes])


def _joined(
    layout: Layout,
    day: dt.date,
    entry: FileEntry,
    scored: Iterator[pa.RecordBatch],
    shard: FileEntry | None,
    columns: Sequence[str],
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    if shard is None or shard.keys != entry.keys:
        raise AccountingError(
            f"{entry.name} of {day} has scores of other users than the shard of that name",
            remedy=f"run user_scores of {day} again",
        )
    landed = iter_batches(layout.stage(USER_SHARDS, day) / shard.name, columns=[ID_COLUMN, *columns])
    for left, right in cut_alike(scored, landed):
        if not left.column(ID_COLUMN).cast(pa.string()).equals(right.column(ID_COLUMN).cast(pa.string())):
            raise AccountingError(
                f"{entry.name} of {day} has not the users of its shard in the shard's order",
                remedy=f"run user_scores of {day} again",
            )
        yield left, right


def cut_alike(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Two streams of as many rows, each cut where the other one is."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        rows = min(one.num_rows, other.num_rows)
        if rows:
            yield one.slice(0, rows), other.slice(0, rows)
        one = one.slice(rows) if rows < one.num_rows else next(left, None)
        other = other.slice(rows) if rows < other.num_rows else next(right, None)
