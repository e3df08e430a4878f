"""A published day scored by the shadow from the day's own shards, and held against what readers see of it.

It only reads what belongs to the day and takes no lock of it, so that no run of the day ever waits for a shadow: where
the day is made again meanwhile, the shadow stops. Its scores come to lie in a folder of their own, those of the last
day alone; what the comparison came to is kept for every day.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profile_assets.errors import AccountingError, ContractError, DataError
from profile_assets.features.encode import encode
from profile_assets.scoring.scorer import BLOCK_ROWS, SCORE_SCHEMA, Scorer, score_sink, scorer_for
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.shadow.compare import by_segment, compare
from profile_assets.storage import atomic
from profile_assets.storage.layout import SHADOW, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import iter_batches, open_parquet
from profile_assets.storage.published import read_part_record
from profile_assets.storage.records import FORMAT, FileEntry, Manifest
from profile_assets.storage.share import in_share
from profile_assets.storage.stages import ID_COLUMN, commit, current, describe, require, seal

SALT = "shadow"
BATCH_ROWS = 4096  # what fits the caches of a processor
_AGAIN = "run the day and publish it, then its shadow again"


@dataclass(frozen=True, kw_only=True)
class ShadowTask:
    """Which bundle is scored on which day, for which share of the users, and how it is compared."""

    layout: Layout
    day: dt.date
    bundle_id: str
    settings: ScoringSettings
    share: float
    segment: str | None
    differs_by: float


@dataclass(frozen=True, kw_only=True)
class _Shard:
    """One shard of both sides, of the users in the share."""

    ids: pa.ChunkedArray
    published: np.ndarray
    shadow: np.ndarray
    segments: pa.ChunkedArray | None


def score_and_compare(task: ShadowTask) -> dict[str, Any]:
    """Do all of it; what was found, which is also written beside the scores. Runs in one process, on one thread."""
    layout, day = task.layout, task.day
    shards, scores = _published(layout, day)
    scorer = scorer_for(layout.bundle(task.bundle_id), _own_settings(task.settings))
    staged = atomic.empty_folder(layout.staging(SHADOW, day))
    began, parts = time.perf_counter(), []
    for entry in shards.files:
        part = _shard(task, scorer, entry)
        with score_sink(staged / entry.name) as sink:
            sink.write(_rows(part, scorer.bundle.id))
        parts.append(part)
    seconds = time.perf_counter() - began
    found = _found(task, parts, scores, seconds)
    manifest = Manifest(
        stage=SHADOW,
        day=day.isoformat(),
        files=tuple(describe(staged / entry.name) for entry in shards.files),
        made_from={USER_SHARDS: shards.digest, USER_SCORES: scores.digest, "bundle": task.bundle_id},
        facts={"bundle_id": task.bundle_id, "share": task.share},
    )
    sealed = seal(layout, day, manifest)
    if [one.digest for one in _published(layout, day)] != [shards.digest, scores.digest]:
        raise DataError(f"{day} was made again while its shadow was scored", remedy=_AGAIN)
    commit(layout, day, sealed)
    _leave_only(layout, day)
    atomic.write_json(layout.shadow_report(day), found, staging=layout.scratch("records"))
    return found


def _own_settings(settings: ScoringSettings) -> ScoringSettings:
    """On a processor, whatever the day takes: a GPU's memory is for what is published."""
    rows = min(settings.batch_rows, BATCH_ROWS)
    return dataclasses.replace(settings, device="cpu", batch_rows=rows, mode="full", workers=1, finds_batch=False)


def _published(layout: Layout, day: dt.date) -> tuple[Manifest, Manifest]:
    """The day's shards and scores, those that were published."""
    record, scores = read_part_record(layout, day), current(layout, USER_SCORES, day)
    if record is None:
        raise DataError(f"{day} is not published", remedy="name a published day: profile-assets show")
    shards = require(layout, USER_SHARDS, day)
    for manifest in (shards, scores):
        if manifest is None or record.sources.get(manifest.stage) != manifest.digest:
            raise DataError(f"the shards or scores that {day} was published from are gone or new", remedy=_AGAIN)
    assert scores is not None
    return shards, scores


def _shard(task: ShadowTask, scorer: Scorer, entry: FileEntry) -> _Shard:
    shadow, ids, segments = [], [], []
    for block in _blocks(task, scorer, entry):
        ids.append(block.column(ID_COLUMN).cast(pa.string()))
        shadow.append(scorer.score(encode(block, scorer.bundle.spec), block.column(ID_COLUMN)))
        if task.segment is not None:
            segments.append(block.column(task.segment).cast(pa.string()))
    seen = pa.chunked_array(ids, pa.string())
    return _Shard(
        ids=seen,
        shadow=np.concatenate(shadow) if shadow else np.empty(0, np.float32),
        published=_published_scores(task, entry, seen),
        segments=None if task.segment is None else pa.chunked_array(segments, pa.string()),
    )


def _blocks(task: ShadowTask, scorer: Scorer, entry: FileEntry) -> Iterator[pa.RecordBatch]:
    """The users of a shard who are in the share."""
    path = task.layout.stage(USER_SHARDS, task.day) / entry.name
    columns = list(dict.fromkeys((ID_COLUMN, *scorer.bundle.spec.columns, *([task.segment] if task.segment else []))))
    with open_parquet(path) as file:
        missing = sorted(set(columns) - set(file.schema_arrow.names))
    if missing:
        raise ContractError(
            f"{path} has no column {', '.join(missing)}", remedy="add it to the contract, or choose another bundle"
        )
    for batch in iter_batches(path, columns=columns, batch_rows=BLOCK_ROWS):
        part = batch.filter(pa.array(in_share(batch.column(ID_COLUMN), task.share, SALT)))
        if part.num_rows:
            yield part


def _published_scores(task: ShadowTask, entry: FileEntry, ids: pa.ChunkedArray) -> np.ndarray:
    """The published scores of the same users, who stand in the same order in the score file."""
    path = task.layout.stage(USER_SCORES, task.day) / entry.name
    found, scores = [], [np.empty(0, np.float32)]
    for batch in iter_batches(path, columns=[ID_COLUMN, "score"]):
        part = batch.filter(pa.array(in_share(batch.column(ID_COLUMN), task.share, SALT)))
        found.append(part.column(0).cast(pa.string()))
        scores.append(part.column(1).to_numpy())
    if not pa.chunked_array(found, pa.string()).equals(ids):
        raise AccountingError(f"{path} has not the users of its shard in the shard's order", remedy=_AGAIN)
    return np.concatenate(scores)


def _rows(part: _Shard, bundle_id: str) -> pa.Table:
    bundles = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(part.shadow), np.int32)), pa.array([bundle_id]))
    return pa.table([part.ids, pa.array(part.shadow, pa.float32()), bundles], schema=SCORE_SCHEMA)


def _found(task: ShadowTask, parts: list[_Shard], scores: Manifest, seconds: float) -> dict[str, Any]:
    published = np.concatenate([part.published for part in parts])
    shadow = np.concatenate([part.shadow for part in parts])
    figures = compare(published, shadow, differs_by=task.differs_by)
    segments: list[dict[str, Any]] = []
    if task.segment is not None:
        columns = [part.segments for part in parts if part.segments is not None]
        column = pa.chunked_array([chunk for one in columns for chunk in one.chunks], pa.string())
        segments = by_segment(column, published, shadow, differs_by=task.differs_by)
    timed = [entry for entry in scores.files if entry.seconds > 0]
    taken, rows = sum(entry.seconds for entry in timed), sum(entry.rows for entry in timed)
    return {
        "format": FORMAT,
        "day": task.day.isoformat(),
        "bundle_id": task.bundle_id,
        "published_bundle_id": scores.facts["bundle_id"],
        "share": task.share,
        "differs_by": task.differs_by,
        "segment": task.segment,
        **figures,
        "segments": segments,
        "seconds": round(seconds, 3),
        "us_per_user": round(seconds * 1e6 / len(shadow), 3) if len(shadow) else None,
        "published_us_per_user": round(taken * 1e6 / rows, 3) if rows else None,
    }


def _leave_only(layout: Layout, day: dt.date) -> None:
    kept: Path = layout.stage(SHADOW, day)
    for folder in kept.parent.glob("day=*"):
        if folder != kept:
            with atomic.disk_errors("cannot remove", folder):
                shutil.rmtree(folder)
