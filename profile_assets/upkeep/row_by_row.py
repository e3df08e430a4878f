"""What the digest of a publication's ids and scores leaves out, row by row: moments, the canary's users, and columns
that ride along, held against the record and against the shards that they came from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.feature_store.pairs import cut_alike
from profile_assets.feature_store.rows import SCHEMA
from profile_assets.storage.days import day_end
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import iter_batches, open_parquet
from profile_assets.storage.pruned import pruned_at
from profile_assets.storage.published import PublishRecord
from profile_assets.storage.records import Manifest
from profile_assets.storage.routes import CANARY, ROUTE_COLUMN
from profile_assets.storage.share import in_share
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.upkeep.findings import State
from profile_assets.upkeep.rerun import again, rerun_of

_MOMENT = SCHEMA.field("published_at").type
_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def moments(told: PublishRecord, part: Path, time_zone: str) -> tuple[State, str]:
    """Every row has the moments of its publication, and the canary scored the users of its share and no others."""
    wanted = {"event_timestamp": day_end(told.day, time_zone), "published_at": told.published_at}
    for batch in iter_batches(part, columns=[ID_COLUMN, ROUTE_COLUMN, *wanted]):
        for name, moment in wanted.items():
            is_other = pc.not_equal(batch.column(name), pa.scalar(moment, _MOMENT))
            if pc.any(is_other).as_py():
                row = batch.filter(is_other).slice(0, 1).to_pylist()[0]
                return "wrong", f"{name} of {row[ID_COLUMN]} is {row[name].isoformat()}, not {moment.isoformat()}"
        stranger = _stranger(batch, told)
        if stranger is not None:
            return "wrong", f"the route of {stranger} is not that of the canary's share, or was to be it"
    return "right", "every row has the moments of its publication, and the route of its share"


def _stranger(batch: pa.RecordBatch, told: PublishRecord) -> str | None:
    """A user on the canary's route who is not of its share, or the other way round."""
    found = pc.equal(batch.column(ROUTE_COLUMN), CANARY).to_numpy(zero_copy_only=False)
    wanted = np.zeros(len(found), bool)
    if told.canary is not None:
        wanted = in_share(batch.column(ID_COLUMN), told.canary["share"], told.canary["salt"])
    places = np.flatnonzero(found != wanted)
    return str(batch.column(ID_COLUMN)[int(places[0])].as_py()) if len(places) else None


def riding(layout: Layout, told: PublishRecord, part: Path, manifests: Mapping[str, Manifest]) -> tuple[State, str]:
    """The columns beside the scores are those of the shards, value by value; `none` where there are no such columns."""
    with open_parquet(part) as file:
        schema: pa.Schema = file.schema_arrow
    columns = [name for name in schema.names if name not in SCHEMA.names]
    if not columns:
        return "none", ""
    folder = layout.stage(USER_SHARDS, told.day)
    if not {USER_SCORES, USER_SHARDS} <= set(manifests):
        return "missing", f"the shards that {', '.join(columns)} came from, and nobody pruned them; {again(told.day)}"
    if pruned_at(folder) is not None:
        return "pruned", f"the shards that {', '.join(columns)} came from are gone"
    if told.sources.get(USER_SHARDS) != manifests[USER_SHARDS].digest:
        rerun = rerun_of(layout, told.day)
        if rerun is not None and rerun.has_left(manifests):
            return "noted", f"the shards that {', '.join(columns)} came from were replaced by a later run"
        return "wrong", f"the shards were made again since {', '.join(columns)} were published; run the day again"
    landed = _chained([folder / entry.name for entry in manifests[USER_SCORES].files], [ID_COLUMN, *columns])
    wrong = _differing(iter_batches(part, columns=[ID_COLUMN, *columns]), landed)
    if ID_COLUMN in wrong:
        return "wrong", "the table has not the users of the shards in their order"
    if wrong:
        others = ", ".join(f"{name} (from {user} on)" for name, user in wrong.items())
        return "wrong", f"the table has other values than the shards in {others}; run the day again"
    return "right", f"{', '.join(columns)}: every value is that of the shards"


def _differing(table: Iterator[pa.RecordBatch], landed: Iterator[pa.RecordBatch]) -> dict[str, str]:
    """The columns of which any value differs, with the first user of the batch where that was seen."""
    wrong: dict[str, str] = {}
    for left, right in cut_alike(table, landed):
        for name in left.schema.names:
            if name not in wrong and not _same(left.column(name), right.column(name).cast(left.column(name).type)):
                wrong[name] = str(left.column(ID_COLUMN)[0].as_py())
    return wrong


def _chained(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return itertools.chain.from_iterable(iter_batches(path, columns=columns) for path in paths)


def _same(left: pa.Array, right: pa.Array) -> bool:
    """The same values, a NaN being itself."""
    if left.equals(right):
        return True
    if left.type in _BITS:
        return bool(left.view(_BITS[left.type]).equals(right.view(_BITS[left.type])))
    if pa.types.is_list(left.type) or pa.types.is_fixed_size_list(left.type):
        lengths = pc.list_value_length(left).equals(pc.list_value_length(right))
        return bool(lengths) and _same(left.flatten(), right.flatten())
    return False
