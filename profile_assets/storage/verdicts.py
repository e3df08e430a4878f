"""The recorded judgement over a day: which checks each stage passed, on exactly which digests.

A verdict is worth nothing for any other data than the manifest digests that it names. Judging other data of a stage
forgets what was said of it, its releases included, and of the stages after it. What publishes a day asks
`require_passed`; nothing else decides.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profile_assets.errors import CorruptError, GateError
from profile_assets.storage import atomic
from profile_assets.storage.layout import EXPORT, RAW_USERS, STAGES, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.outcomes import Outcome as Outcome
from profile_assets.storage.outcomes import Release as Release
from profile_assets.storage.outcomes import Result as Result
from profile_assets.storage.outcomes import StageVerdict as StageVerdict
from profile_assets.storage.outcomes import stage_from_json, stage_to_json
from profile_assets.storage.records import FORMAT, digest_of, read_json

CHECKS: Mapping[str, tuple[str, ...]] = {
    RAW_USERS: ("min_rows", "rows_match_read", "row_count_change", "row_count_weekday"),
    USER_SHARDS: (
        "rows_match_raw",
        "unique_ids",
        "null_rates",
        "null_rate_change",
        "null_rate_weekday",
        "ranges",
        "shard_skew",
    ),
    USER_SCORES: ("rows_match_shards", "scores_valid", "score_drift", "unknown_categories", "feature_drift"),
    EXPORT: ("rows_match_scores",),
}
"""The checks that a stage must have been through, by stage. No two have the same name."""

_REDO = "run its day again from the first stage"

SUITE = "suite"
"""The check that a profile with a Great Expectations suite of its own has beside those of user_shards."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdicts over the stages of a day, by stage."""

    day: dt.date
    stages: Mapping[str, StageVerdict]

    @property
    def digest(self) -> str:
        """sha256 over what was found before the export."""
        return digest_of({name: stage_to_json(stage) for name, stage in self.stages.items() if name != EXPORT})


def read_verdict(layout: Layout, day: dt.date) -> Verdict | None:
    """The recorded verdict of a day; None where nothing was judged."""
    path = layout.verdict(day)
    if not path.exists():
        return None
    value = read_json(path)
    try:
        verdict, told = _from_json(value), value["digest"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{path} lacks or bends {error}", remedy=_REDO) from error
    if told != digest_of({name: one for name, one in value.items() if name != "digest"}):
        raise CorruptError(f"{path} was changed: it is not what its digest was taken of", remedy=_REDO)
    if verdict.day != day:
        raise CorruptError(f"{path} is the verdict of {verdict.day}", remedy=_REDO)
    return verdict


def record(layout: Layout, day: dt.date, verdict: StageVerdict) -> StageVerdict:
    """Record what was found about a stage; gives the verdict as it now stands, with the releases of the same data.

    What is known of the stages after it stays only if its data is the same. A verdict that cannot be read is
    forgotten: the stages of the day are being judged again, and whoever publishes finds what is missing.
    """
    with atomic.locked(layout.day_lock("verdict", day), what=f"the verdict of {day}"):
        known = _readable(layout, day)
        kept = _still_valid(known.stages, verdict) if known else {}
        before = kept.get(verdict.stage)
        standing = verdict if before is None else dataclasses.replace(verdict, releases=before.releases)
        write_verdict(layout, Verdict(day=day, stages={**kept, verdict.stage: standing}))
        return standing


def _readable(layout: Layout, day: dt.date) -> Verdict | None:
    try:
        return read_verdict(layout, day)
    except CorruptError:
        return None


def write_verdict(layout: Layout, verdict: Verdict) -> None:
    """Make this the verdict of its day; the caller holds the verdict's lock."""
    atomic.write_json(layout.verdict(verdict.day), _to_json(verdict), staging=layout.scratch("records"))


def _still_valid(known: Mapping[str, StageVerdict], new: StageVerdict) -> dict[str, StageVerdict]:
    """The verdicts that a new one leaves standing."""
    old = known.get(new.stage)
    if old is not None and old.digest == new.digest:
        return dict(known)
    before = STAGES[: STAGES.index(new.stage)]
    return {name: stage for name, stage in known.items() if name in before}


def require_passed(verdict: Verdict, digests: Mapping[str, str]) -> None:
    """GateError, with every reason, unless each stage passed all its checks on exactly the digest given for it."""
    reasons = [reason for stage, digest in digests.items() for reason in _reasons(verdict, stage, digest)]
    if reasons:
        raise GateError(
            f"{verdict.day} is not to be published: {'; '.join(reasons)}",
            remedy=f"mend what failed and run {verdict.day} again from the first stage named",
        )


def _reasons(verdict: Verdict, stage: str, digest: str) -> list[str]:
    judged = verdict.stages.get(stage)
    if judged is None:
        return [f"{stage} was never judged"]
    reasons = []
    if judged.digest != digest:
        reasons.append(f"{stage} was judged as {judged.digest[:12]}, but is now {digest[:12]}")
    unseen = [check for check in CHECKS.get(stage, ()) if judged.outcome(check) is None]
    reasons += [f"{stage}: {check} was not evaluated" for check in unseen]
    return reasons + [f"{stage}: {outcome.told}" for outcome in judged.stopping]


def _to_json(verdict: Verdict) -> dict[str, Any]:
    stages = {name: stage_to_json(stage) for name, stage in verdict.stages.items()}
    value = {"format": FORMAT, "day": verdict.day.isoformat(), "stages": stages}
    return {**value, "digest": digest_of(value)}


def _from_json(value: Mapping[str, Any]) -> Verdict:
    stages = {name: stage_from_json(stage) for name, stage in value["stages"].items()}
    return Verdict(day=dt.date.fromisoformat(value["day"]), stages=stages)
