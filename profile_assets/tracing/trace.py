"""The trace of one user's score on one day, as plain values: each step names where it was read from.

A step whose files are gone says so and leaves nothing else out. Where a stage was made again since the day was
published, the trace says that what lies there now is not what was published.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import BundleError, CorruptError
from profile_assets.feature_store import read
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle_files import METRICS, PROVENANCE, SIGNATURE, SNAPSHOT, SPEC, read_part
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.shards.hashing import shard_numbers
from profile_assets.storage.keys import md5_words
from profile_assets.storage.layout import RAW_USERS, ROWS, USER_SCORES, USER_SHARDS, USERS_FILE, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.parts import part_of
from profile_assets.storage.published import PublishRecord, read_part_record
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN, current
from profile_assets.storage.verdicts import read_verdict
from profile_assets.tracing.effects import features_of, scored_again
from profile_assets.tracing.origin import origin, rows_set_aside
from profile_assets.users.contract import Contract
from profile_assets.users.source import SourceSettings


@dataclass(frozen=True, kw_only=True)
class Question:
    """Whose score of which day, and of which deployment. `shows_personal` shows personal columns as they are."""

    layout: Layout
    source: SourceSettings
    contract: Contract
    scoring: ScoringSettings
    user: str
    day: dt.date
    shows_personal: bool = False

    @property
    def hidden(self) -> frozenset[str]:
        """The columns whose values are hashed."""
        return frozenset(() if self.shows_personal else (one.name for one in self.contract.columns if one.personal))


def trace(asked: Question) -> dict[str, Any]:
    """Everything that is known of the score, as JSON-ready values."""
    layout, day = asked.layout, asked.day
    record = read_part_record(layout, day)
    published = read.lookup(layout, asked.user, day) if part_of(layout, day) else None
    manifests = {stage: _manifest(layout, stage, day) for stage in ROWS}
    aside = rows_set_aside(layout, asked.contract, day, asked.user)
    row, place = _row(asked, manifests)
    bundle_id = _bundle_id(published, manifests[USER_SCORES])
    found = {
        "user_id": asked.user,
        "day": day.isoformat(),
        "state": "published" if published else "missing" if record else "day not published",
        "published": _published(published, record),
        "source": _source(asked, manifests[RAW_USERS], aside),
        "quarantine": aside,
        **place,
        "bundle": _bundle(layout, bundle_id),
        "verdicts": _verdicts(layout, day, record),
        "made_again_since": _made_again(manifests, record),
    }
    return found | _scored(asked, row, bundle_id, manifests[USER_SCORES], published)


def _manifest(layout: Layout, stage: str, day: dt.date) -> Manifest | None:
    try:
        return current(layout, stage, day)
    except CorruptError:
        return None  # told as a stage that is not there


def _published(published: dict[str, Any] | None, record: PublishRecord | None) -> dict[str, Any] | None:
    if published is None or record is None:
        return None
    return {
        "score": published["score"],
        "bundle_id": published["bundle_id"],
        "published_at": record.published_at.isoformat(),
        "targets": {name: target.state for name, target in record.targets.items()},
    }


def _source(asked: Question, landed: Manifest | None, aside: list[dict[str, Any]]) -> dict[str, Any]:
    if landed is None:
        return {"state": "not landed", "note": f"{RAW_USERS} of {asked.day} is not there"}
    return origin(asked.source, asked.contract, asked.day, asked.user, landed, aside)


def _row(asked: Question, manifests: dict[str, Manifest | None]) -> tuple[pa.Table | None, dict[str, Any]]:
    """The user's row as it went into the scoring, and where it lies: from the shard, else from the landed users."""
    landed, dealt = manifests[RAW_USERS], manifests[USER_SHARDS]
    raw_path = asked.layout.stage(RAW_USERS, asked.day) / USERS_FILE
    raw_row = None if landed is None else _find(raw_path, asked.user)
    place: dict[str, Any] = {"landed": None, "shard": None}
    if raw_row is not None:
        place["landed"] = {"file": str(raw_path), "row": raw_row[0]}
    if dealt is None or not dealt.files:
        return None if raw_row is None else raw_row[1], place
    number = int(shard_numbers(md5_words(pa.array([asked.user])), len(dealt.files))[0])
    path = asked.layout.stage(USER_SHARDS, asked.day) / dealt.files[number].name
    dealt_row = _find(path, asked.user)
    place["shard"] = {"file": str(path), "number": number, "of": len(dealt.files)}
    if dealt_row is None:
        return None if raw_row is None else raw_row[1], place
    place["shard"]["row"] = dealt_row[0]
    return dealt_row[1], place


def _find(path: Path, user: str) -> tuple[int, pa.Table] | None:
    """A user's row number, from 1, and row; None where the file is gone or has no such user."""
    if not path.exists():
        return None
    start = 0
    for batch in iter_batches(path):
        place = pc.index(batch.column(ID_COLUMN), user).as_py()
        if place >= 0:
            return start + place + 1, pa.Table.from_batches([batch.slice(place, 1)])
        start += batch.num_rows
    return None


def _bundle_id(published: dict[str, Any] | None, scored: Manifest | None) -> str | None:
    if published is not None:
        return str(published["bundle_id"])
    return None if scored is None else str(scored.facts["bundle_id"])


def _bundle(layout: Layout, bundle_id: str | None) -> dict[str, Any] | None:
    """What the bundle says of itself: network, figures, data, code. `problem` where it can no longer be read."""
    if bundle_id is None:
        return None
    path = layout.bundle(bundle_id)
    try:
        signature, provenance = read_part(path, SIGNATURE), read_part(path, PROVENANCE)
        metrics, snapshot = read_part(path, METRICS), read_part(path, SNAPSHOT)
    except BundleError as error:
        return {"id": bundle_id, "problem": error.what}
    figures = ("day", "role", "rows", "auc", "log_loss", "ece")
    return {
        "id": bundle_id,
        "problem": None,
        "network": signature["network"],
        "calibration": signature.get("calibration"),
        "code": provenance.get("code"),
        "made_at": provenance.get("made_at"),
        "metrics": [{name: day.get(name) for name in figures} for day in metrics.get("days") or []],
        "data_snapshot": snapshot,
    }


def _verdicts(layout: Layout, day: dt.date, record: PublishRecord | None) -> list[dict[str, Any]]:
    """Every outcome of the day's checks; `is_of_published` where they judged the data that was published."""
    verdict = read_verdict(layout, day)
    return [
        {
            "stage": stage.stage,
            "check": outcome.check,
            "result": outcome.result,
            "severity": outcome.severity,
            "detail": outcome.detail,
            "released_by": None if (release := stage.release(outcome.check)) is None else release.by,
            "is_of_published": None
            if record is None
            else record.sources.get(stage.stage, stage.digest) == stage.digest,
        }
        for stage in (verdict.stages.values() if verdict else ())
        for outcome in stage.outcomes
    ]


def _made_again(manifests: dict[str, Manifest | None], record: PublishRecord | None) -> list[str]:
    """The stages that no longer hold what was published."""
    if record is None:
        return []
    return [
        stage
        for stage, manifest in manifests.items()
        if manifest is not None and record.sources.get(stage) not in (None, manifest.digest)
    ]


def _scored(
    asked: Question,
    row: pa.Table | None,
    bundle_id: str | None,
    scored: Manifest | None,
    published: dict[str, Any] | None,
) -> dict[str, Any]:
    """The features and the score of the row, worked out again; why not, where they cannot be."""
    if row is None:
        return {
            "features": [],
            "recomputed": {"problem": "neither the shards nor the landed users have the row"},
        }
    if bundle_id is None:
        return {"features": [], "recomputed": {"problem": "no bundle has scored that day"}}
    path = asked.layout.bundle(bundle_id)
    shapes = [] if scored is None else scored.notes.get("batch_rows") or []
    settings = dataclasses.replace(asked.scoring, batch_rows=max(shapes)) if shapes else asked.scoring
    try:
        spec = FeatureSpec.from_json(read_part(path, SPEC))
        again = scored_again(row, path, settings, None if published is None else float(published["score"]))
    except BundleError as error:
        return {"features": [], "recomputed": {"problem": error.what}}
    return {"features": features_of(row, spec, asked.hidden), "recomputed": {"problem": None, **again}}
