"""The recorded judgement over a day: which checks each stage passed, on exactly which digests.

A verdict is worth nothing for any other data than the manifest digests that it names. Judging other data of a stage
forgets what was said of the stages after it. What publishes a day asks `require_passed`; nothing else decides.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from profile_assets.errors import CorruptError, GateError
from profile_assets.storage import atomic
from profile_assets.storage.layout import EXPORT, RAW_USERS, STAGES, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.records import FORMAT, digest_of, read_json

Result = Literal["pass", "fail", "not_evaluated", "no_baseline"]
"""`no_baseline`: every absolute limit holds, and it is proven that there is no earlier day to compare with."""

CHECKS: Mapping[str, tuple[str, ...]] = {
    RAW_USERS: ("min_rows", "row_count_change", "null_rates", "ranges", "unique_ids"),
    USER_SHARDS: ("rows_match_raw",),
    USER_SCORES: ("rows_match_shards", "scores_valid", "unique_ids"),
    EXPORT: ("rows_match_scores",),
}
"""The checks that a stage must have been through, by stage."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one check found. `table` holds a row for each column or file looked at, all with the same keys."""

    check: str
    result: Result
    observed: float | None = None
    limit: float | None = None
    baseline: float | None = None
    detail: str
    table: tuple[Mapping[str, Any], ...] = ()

    @property
    def lets_through(self) -> bool:
        return self.result in ("pass", "no_baseline")


@dataclass(frozen=True, kw_only=True)
class StageVerdict:
    """What was found about one stage: `digest` is the manifest digest judged, the baseline what it was held against."""

    stage: str
    digest: str
    outcomes: tuple[Outcome, ...]
    baseline_day: dt.date | None = None
    baseline_digest: str | None = None

    def outcome(self, check: str) -> Outcome | None:
        """The outcome of one check; None where it was never evaluated."""
        return next((outcome for outcome in self.outcomes if outcome.check == check), None)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdicts over the stages of a day, by stage."""

    day: dt.date
    stages: Mapping[str, StageVerdict]

    @property
    def digest(self) -> str:
        """sha256 over what was found before the export."""
        return digest_of({name: _stage_to_json(stage) for name, stage in self.stages.items() if name != EXPORT})


def read_verdict(layout: Layout, day: dt.date) -> Verdict | None:
    """The recorded verdict of a day; None where nothing was judged."""
    path = layout.verdict(day)
    if not path.exists():
        return None
    value = read_json(path)
    try:
        verdict = _from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{path} lacks or bends {error}", remedy="remove that file and run its day again") from error
    if verdict.day != day:
        raise CorruptError(f"{path} is the verdict of {verdict.day}", remedy="remove that file and run its day again")
    return verdict


def record(layout: Layout, day: dt.date, verdict: StageVerdict) -> None:
    """Record what was found about a stage. What is known of the stages after it stays only if its data is the same."""
    with atomic.locked(layout.day_lock("verdict", day), what=f"the verdict of {day}"):
        known = read_verdict(layout, day)
        kept = _still_valid(known.stages, verdict) if known else {}
        value = _to_json(Verdict(day=day, stages={**kept, verdict.stage: verdict}))
        atomic.write_json(layout.verdict(day), value, staging=layout.scratch("records"))


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
    stopped = [outcome for outcome in judged.outcomes if not outcome.lets_through]
    return reasons + [f"{stage}: {outcome.check} ({outcome.result}): {outcome.detail}" for outcome in stopped]


def _to_json(verdict: Verdict) -> dict[str, Any]:
    stages = {name: _stage_to_json(stage) for name, stage in verdict.stages.items()}
    return {"format": FORMAT, "day": verdict.day.isoformat(), "stages": stages}


def _stage_to_json(stage: StageVerdict) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "digest": stage.digest,
        "outcomes": [_outcome_to_json(outcome) for outcome in stage.outcomes],
        "baseline_day": None if stage.baseline_day is None else stage.baseline_day.isoformat(),
        "baseline_digest": stage.baseline_digest,
    }


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "check": outcome.check,
        "result": outcome.result,
        "observed": _plain(outcome.observed),
        "limit": _plain(outcome.limit),
        "baseline": _plain(outcome.baseline),
        "detail": outcome.detail,
        "table": [{name: _plain(value) for name, value in row.items()} for row in outcome.table],
    }


def _plain(value: Any) -> Any:
    """A value that JSON can hold: NaN and infinity become their names, as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _from_json(value: Mapping[str, Any]) -> Verdict:
    stages = {name: _stage_from_json(stage) for name, stage in value["stages"].items()}
    return Verdict(day=dt.date.fromisoformat(value["day"]), stages=stages)


def _stage_from_json(value: Mapping[str, Any]) -> StageVerdict:
    baseline_day = value["baseline_day"]
    return StageVerdict(
        stage=value["stage"],
        digest=value["digest"],
        outcomes=tuple(_outcome_from_json(outcome) for outcome in value["outcomes"]),
        baseline_day=None if baseline_day is None else dt.date.fromisoformat(baseline_day),
        baseline_digest=value["baseline_digest"],
    )


def _outcome_from_json(value: Mapping[str, Any]) -> Outcome:
    if value["result"] not in get_args(Result):
        raise ValueError(f"the result {value['result']!r}")
    numbers = {name: _number(value[name]) for name in ("observed", "limit", "baseline")}
    return Outcome(
        check=value["check"], result=value["result"], detail=value["detail"], table=tuple(value["table"]), **numbers
    )


def _number(value: float | str | None) -> float | None:
    return None if value is None else float(value)
