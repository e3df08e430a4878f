"""The offline table's file of one day: built from the scores out of sight, audited by reading it again, then renamed.

Plain hive-partitioned Parquet under `ds=YYYY-MM-DD/`, with no column `ds` in the file, so that every reader takes it
as it is. Its rename is the commit; its footer carries the publish record, which is thus never lost with a crash.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import AccountingError, CorruptError, DataError
from profile_assets.storage.atomic import empty_folder
from profile_assets.storage.days import day_end
from profile_assets.storage.keys import KeySet, key_set_of
from profile_assets.storage.layout import EXPORT, PART_FILE, USER_SCORES, Layout
from profile_assets.storage.parquet import ParquetSink, iter_batches
from profile_assets.storage.published import FOOTER_KEY, OFFLINE, PublishRecord
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN

_MOMENT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        (ID_COLUMN, pa.string()),
        ("score", pa.float32()),
        ("bundle_id", pa.string()),
        ("event_timestamp", _MOMENT),
        ("published_at", _MOMENT),
    ]
)


def stage_offline(layout: Layout, scores: Manifest, record: PublishRecord, *, time_zone: str) -> Path:
    """Build the day's file in staging and audit it: the path to rename from.

    `record` says what is published; its offline target's moment becomes `published_at`. `event_timestamp` is the
    day's end in `time_zone`. Raises AccountingError, DataError or CorruptError where the file is not what it says.
    """
    path = empty_folder(layout.staging(EXPORT, record.day)) / PART_FILE
    moments = (day_end(record.day, time_zone), record.targets[OFFLINE].at)
    # Ids are all different and scores nearly so: a dictionary of them would only cost.
    repeated = ["bundle_id", "event_timestamp", "published_at"]
    with ParquetSink(path, SCHEMA, footer={FOOTER_KEY: json.dumps(record.to_json())}, dictionary=repeated) as sink:
        for batch in _score_batches(layout, record.day, scores):
            sink.write(_with_moments(batch, moments))
    audit(path, record)
    return path


def audit(path: Path, record: PublishRecord) -> None:
    """Read every value of the file again and hold it against the record: users, bundle, scores."""
    keys = KeySet()
    for batch in iter_batches(path):
        _require_whole(path, batch)
        keys += key_set_of(batch.column(ID_COLUMN))
        _require_scores(path, batch, record.bundle_id)
    if keys != record.keys or keys.count != record.rows:
        raise AccountingError(
            f"{path} holds {keys.count} users, {record.rows} were to be published, or they are not the same users",
            remedy=f"run user_scores of {record.day} again, then publish it",
        )


def _score_batches(layout: Layout, day: dt.date, scores: Manifest) -> Iterator[pa.RecordBatch]:
    columns = [ID_COLUMN, "score", "bundle_id"]
    for entry in scores.files:
        yield from iter_batches(layout.stage(USER_SCORES, day) / entry.name, columns=columns)


def _with_moments(batch: pa.RecordBatch, moments: tuple[dt.datetime, dt.datetime]) -> pa.RecordBatch:
    """The batch in the table's schema; both moments are the same in every row."""
    constants = [pa.repeat(pa.scalar(moment, type=_MOMENT), batch.num_rows) for moment in moments]
    text = [batch.column(name).cast(pa.string()) for name in (ID_COLUMN, "bundle_id")]
    return pa.RecordBatch.from_arrays([text[0], batch.column("score"), text[1], *constants], schema=SCHEMA)


def _require_whole(path: Path, batch: pa.RecordBatch) -> None:
    if not batch.schema.equals(SCHEMA):
        raise CorruptError(f"{path} has not the columns of the table", remedy="publish its day again")
    missing = [name for name in SCHEMA.names if batch.column(name).null_count]
    if missing:
        raise DataError(f"{path} has nulls in {', '.join(missing)}", remedy="run user_scores of its day again")


def _require_scores(path: Path, batch: pa.RecordBatch, bundle_id: str) -> None:
    remedy = "run user_scores of its day again"
    if not np.isfinite(batch.column("score").to_numpy()).all():
        raise DataError(f"{path} has scores that are no finite number", remedy=remedy)
    others = pc.unique(batch.column("bundle_id")).to_pylist()
    if set(others) - {bundle_id}:
        raise DataError(f"{path} has scores of {', '.join(others)} beside {bundle_id}", remedy=remedy)
