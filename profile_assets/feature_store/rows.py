"""The published rows of a day: one Parquet file, built from the scores out of sight and audited by reading it again.

Every format of the table makes this same file visible. It has no column `ds` (the folder says it), and its footer
carries the publish record, which is thus never lost with a crash. Features that ride along come from the day's shards,
whose files have the rows of the score files in the same order; that is checked id by id, never assumed.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import AccountingError, ContractError, CorruptError, DataError
from profile_assets.feature_store.pairs import pairs
from profile_assets.storage.atomic import empty_folder
from profile_assets.storage.days import day_end
from profile_assets.storage.layout import EXPORT, PART_FILE, USER_SHARDS, Layout
from profile_assets.storage.parquet import ParquetSink, iter_batches, open_parquet
from profile_assets.storage.parts import part_of
from profile_assets.storage.published import FOOTER_KEY, OFFLINE, PublishRecord, published_days
from profile_assets.storage.records import Manifest
from profile_assets.storage.routes import CANARY, ROUTE_COLUMN
from profile_assets.storage.routes import FULL as FULL  # part of what this module offers
from profile_assets.storage.routes import ROUTES as ROUTES
from profile_assets.storage.stages import ID_COLUMN, keys_on_disk
from profile_assets.storage.written import ScoreOrder, Written

_MOMENT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        (ID_COLUMN, pa.string()),
        ("score", pa.float32()),
        ("bundle_id", pa.string()),
        ("route", pa.string()),
        ("event_timestamp", _MOMENT),
        ("published_at", _MOMENT),
    ]
)


def table_schema(layout: Layout, day: dt.date, shards: Manifest, columns: Sequence[str]) -> pa.Schema:
    """The table's own columns and, after them, those that ride along, in the types they landed in.

    Raises ContractError for a column that the day's shards lack, or that the newest other day of the table has in
    another type: no reader could take the two days together.
    """
    with open_parquet(layout.stage(USER_SHARDS, day) / shards.files[0].name) as file:
        landed = file.schema_arrow
    missing = [name for name in columns if name not in landed.names]
    if missing:
        raise ContractError(
            f"{day} has no column {', '.join(missing)}, which export.columns names",
            remedy="name columns of the contract there, then run the day again from the first stage",
        )
    schema = pa.schema([*SCHEMA, *(pa.field(name, _plain(landed.field(name).type)) for name in columns)])
    _require_known_types(layout, day, schema)
    return schema


def _require_known_types(layout: Layout, day: dt.date, schema: pa.Schema) -> None:
    other = max((one for one in published_days(layout) if one != day), default=None)
    part = None if other is None else part_of(layout, other)
    if part is None:
        return
    try:
        with open_parquet(part) as file:
            known = file.schema_arrow
    except CorruptError:  # readers of that day are told so; it does not keep others from being published
        return
    for field in schema:
        if field.name in known.names and known.field(field.name).type != field.type:
            raise ContractError(
                f"{field.name} of {day} is {field.type}; in the table it is {known.field(field.name).type}, by {other}",
                remedy="give the column its old type or another name, or take it out of export.columns; "
                "then run the day again",
            )


def stage_rows(
    layout: Layout,
    scores: Manifest,
    shards: Manifest,
    record: PublishRecord,
    *,
    schema: pa.Schema,
    time_zone: str,
) -> tuple[Path, PublishRecord]:
    """Build the day's file in staging and audit it: the path to commit from, and the record that it carries.

    `record` says what is published, the digest of the rows is added; its offline target's moment becomes
    `published_at`. `event_timestamp` is the day's end in `time_zone`. Raises AccountingError, DataError or
    CorruptError where the file is not what it says.
    """
    path = empty_folder(layout.staging(EXPORT, record.day)) / PART_FILE
    constants = (FULL, day_end(record.day, time_zone), record.targets[OFFLINE].at)
    # Ids are all different and scores nearly so: a dictionary of them would only cost.
    repeated = ["bundle_id", "route", "event_timestamp", "published_at"]
    repeated += [field.name for field in schema if field.name not in SCHEMA.names and pa.types.is_string(field.type)]
    with ParquetSink(path, schema, dictionary=repeated) as sink:
        order = ScoreOrder()
        for scored, landed in pairs(layout, record.day, scores, shards, _riding(schema)):
            order.add(scored.column(ID_COLUMN), scored.column("score"))
            sink.write(_row_batch(scored, landed, constants, schema))
        record = dataclasses.replace(record, rows_digest=order.digest)
        sink.add_footer({FOOTER_KEY: json.dumps(record.to_json())})
    if not has_columns(path, schema):
        raise CorruptError(f"{path} has not the columns of the table", remedy="publish its day again")
    audit(path, record, Written(order.ids, scores.keys))
    return path, record


def has_columns(path: Path, schema: pa.Schema) -> bool:
    """Whether the file has exactly these columns, in this order."""
    with open_parquet(path) as file:
        found: pa.Schema = file.schema_arrow
    return bool(found.remove_metadata().equals(schema))


def audit(path: Path, record: PublishRecord, written: Written | None = None) -> None:
    """Read every value of the file again and hold it against the record: columns, users, bundle, the score of each.

    `written`: the ids that were handed to the file, where that was just now; it spares the hashing of them.
    """
    order, canary_rows = ScoreOrder(), 0
    for batch in iter_batches(path):
        _require_columns(path, batch.schema)
        _require_no_nulls(path, batch)
        order.add(batch.column(ID_COLUMN), batch.column("score"))
        canary_rows += _require_scores(path, batch, record)
    if record.canary is not None and canary_rows != record.canary["rows"]:
        raise AccountingError(
            f"{path} has {canary_rows} scores of the canary, {record.canary['rows']} were to be published",
            remedy=f"run user_scores of {record.day} again, then publish it",
        )
    keys = keys_on_disk(path, written, found=order.ids)
    if keys != record.keys or keys.count != record.rows:
        raise AccountingError(
            f"{path} holds {keys.count} users, {record.rows} were to be published, or they are not the same users",
            remedy=f"run user_scores of {record.day} again, then publish it",
        )
    if order.digest != record.rows_digest:
        raise CorruptError(f"{path} does not hold the scores that were published", remedy=f"publish {record.day} again")


def _row_batch(
    scored: pa.RecordBatch,
    landed: pa.RecordBatch | None,
    constants: tuple[str, dt.datetime, dt.datetime],
    schema: pa.Schema,
) -> pa.RecordBatch:
    """One batch in the table's schema; the moments, and the route of a day in full, are the same in every row."""
    columns = {}
    for name, value in zip((ROUTE_COLUMN, "event_timestamp", "published_at"), constants, strict=True):
        columns[name] = pa.repeat(pa.scalar(value, type=SCHEMA.field(name).type), scored.num_rows)
    columns |= {name: scored.column(name) for name in scored.schema.names}
    if landed is not None:
        columns |= {name: landed.column(name) for name in landed.schema.names if name != ID_COLUMN}
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)


def _riding(schema: pa.Schema) -> list[str]:
    """The columns that ride along."""
    return [name for name in schema.names if name not in SCHEMA.names]


def _plain(kind: pa.DataType) -> pa.DataType:
    """Text as plain text, whatever its encoding in the shards."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(value) else value


def _require_columns(path: Path, found: pa.Schema) -> None:
    if list(found)[: len(SCHEMA)] != list(SCHEMA):
        raise CorruptError(f"{path} has not the columns of the table", remedy="publish its day again")


def _require_no_nulls(path: Path, batch: pa.RecordBatch) -> None:
    missing = [name for name in SCHEMA.names if batch.column(name).null_count]
    if missing:
        raise DataError(f"{path} has nulls in {', '.join(missing)}", remedy="run user_scores of its day again")


def _require_scores(path: Path, batch: pa.RecordBatch, record: PublishRecord) -> int:
    """Every score a number, by the day's bundle, or by the canary's on that route alone; how many are the canary's."""
    remedy = "run user_scores of its day again"
    if not np.isfinite(batch.column("score").to_numpy()).all():
        raise DataError(f"{path} has scores that are no finite number", remedy=remedy)
    is_canary = pc.equal(batch.column(ROUTE_COLUMN), CANARY)
    other = "" if record.canary is None else record.canary["bundle_id"]
    wanted = pc.if_else(is_canary, pa.scalar(other), pa.scalar(record.bundle_id))
    if not pc.all(pc.equal(batch.column("bundle_id"), wanted)).as_py():
        others = sorted(set(pc.unique(batch.column("bundle_id")).to_pylist()) - {record.bundle_id})
        raise DataError(
            f"{path} has scores of {', '.join(others) or record.bundle_id} beside {record.bundle_id}, or on a route "
            "that is not theirs",
            remedy=remedy,
        )
    return int(pc.sum(is_canary).as_py() or 0)
