"""What was found about a stage's data, in Dagster's terms: check results, and the end of a run that did not pass.

A stage that does not pass yields its failed check results and then raises `Failure`: the evaluations are stored,
nothing is recorded as materialized, nothing is retried, and the staged data stays where it is for a look.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence

import dagster as dg

from profile_assets.errors import GateError
from profile_assets.orchestration.failures import GATE
from profile_assets.quality.gates import Baselines
from profile_assets.storage import verdicts
from profile_assets.storage.layout import EXPORT, Layout
from profile_assets.storage.outcomes import UNRELEASABLE
from profile_assets.storage.stages import Staged
from profile_assets.storage.verdicts import Outcome, Release, StageVerdict

CheckMetadata = dict[str, dg.MetadataValue | float | str]


def judged(
    context: dg.AssetExecutionContext,
    layout: Layout,
    day: dt.date,
    staged: Staged,
    outcomes: Sequence[Outcome],
    baselines: Baselines,
) -> Iterator[dg.AssetCheckResult]:
    """Record what was found about the staged data, show it, and stop the run unless all of it lets the day through.

    The staged data and the quarantine stay where they are until the day is run again.
    """
    verdict = stage_verdict(staged, outcomes, baselines)
    require_every_check(context, verdict)
    verdict = verdicts.record(layout, day, verdict)
    yield from check_results(context.asset_key, verdict, day)
    stop_if_failed(verdict, day)


def stage_verdict(staged: Staged, outcomes: Sequence[Outcome], baselines: Baselines) -> StageVerdict:
    """What was found about staged data, with what it was compared with."""
    newest, weekday = baselines.newest, baselines.weekday
    return StageVerdict(
        stage=staged.manifest.stage,
        digest=staged.manifest.digest,
        outcomes=tuple(outcomes),
        baseline_day=None if newest is None else newest.day,
        baseline_digest=None if newest is None else newest.digest,
        weekday_day=None if weekday is None else weekday.day,
        weekday_digest=None if weekday is None else weekday.digest,
    )


def require_every_check(context: dg.AssetExecutionContext, verdict: StageVerdict) -> None:
    """PermanentError unless exactly the checks that the graph declares were looked at."""
    declared = {key.name for key in context.selected_asset_check_keys if key.asset_key == context.asset_key}
    found = [outcome.check for outcome in verdict.outcomes]
    if set(found) != declared or len(found) != len(declared):
        raise GateError(
            f"{verdict.stage} declares the checks {sorted(declared)}, of which {sorted(found)} were looked at",
            remedy="run the whole asset, with all of its checks",
        )


def check_results(key: dg.AssetKey, verdict: StageVerdict, day: dt.date) -> Iterator[dg.AssetCheckResult]:
    """One result for each outcome that was evaluated; what was not stays open, which the UI shows as not executed."""
    for outcome in verdict.outcomes:
        if outcome.result != "not_evaluated":
            release = None if outcome.lets_through else verdict.release(outcome.check)
            is_stopping = outcome in verdict.stopping
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=outcome.check,
                passed=outcome.result in ("pass", "no_baseline"),
                # A failure that was released, or that only warns, is still shown as one; it stops nothing.
                severity=dg.AssetCheckSeverity.ERROR if is_stopping else dg.AssetCheckSeverity.WARN,
                description=outcome.detail if release is None else f"released by {release.by}: {release.why}",
                metadata=_check_metadata(outcome, day, verdict) | _release_metadata(release, outcome),
            )


def _release_metadata(release: Release | None, outcome: Outcome) -> CheckMetadata:
    """Who let the data through, when and why, beside what was found."""
    if release is None:
        return {}
    return {"found": outcome.detail, "released_by": release.by, "released_at": release.at, "released_why": release.why}


def _check_metadata(outcome: Outcome, day: dt.date, verdict: StageVerdict) -> CheckMetadata:
    """Numbers as numbers, of which the UI draws plots over the days; one that JSON does not know as its name."""
    numbers = {"observed": outcome.observed, "limit": outcome.limit, "baseline": outcome.baseline}
    metadata: CheckMetadata = {"day": day.isoformat(), "outcome": outcome.result, "digest": verdict.digest}
    metadata |= {
        name: float(value) if math.isfinite(value) else str(value)
        for name, value in numbers.items()
        if value is not None
    }
    if outcome.evaluated is not None:
        metadata["expectations"] = outcome.evaluated
    if verdict.baseline_day is not None:
        metadata["baseline_day"] = verdict.baseline_day.isoformat()
    if outcome.table:
        records = [dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in outcome.table]
        metadata["table"] = dg.MetadataValue.table(records)
    return metadata


def _cell(value: object) -> str | int | float | bool:
    """What a table of the UI can hold; None becomes a dash."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool) else "—" if value is None else str(value)


_STAGED = "Nothing was published; the staged data was kept -> look at the failed checks, {mend}"
_MEND = "mend the source or the limit in the profile, and run the day again"
_RELEASE = '; if the data is right all the same, `profile-assets release {day} --check {check} --why "..."` first'
_NOBODY = "; nobody can release {checks}: what was not evaluated says nothing, and lost or doubled users stay so"
_PUBLISHED = (
    "The day had passed its gates and is published -> look at the failed check at once; "
    '`profile-assets withdraw {day} --why "..."` takes the day back; once it is mended, run it again'
)


def stop_if_failed(verdict: StageVerdict, day: dt.date) -> None:
    """Raise `Failure`, naming each check that does not let the day through."""
    stage, stopped = verdict.stage, verdict.stopping
    if stopped:
        reasons = "".join(f"\n  {outcome.told}" for outcome in stopped)
        left = _PUBLISHED.format(day=day) if stage == EXPORT else _STAGED.format(mend=_mending(stopped, day))
        raise dg.Failure(
            description=f"{stage} of {day} did not pass:{reasons}\n{left}",
            metadata={GATE: stage},
            allow_retries=False,
        )


def _mending(stopped: Sequence[Outcome], day: dt.date) -> str:
    """What can be done about these outcomes; a release only where it would be taken, and would let the day through."""
    fixed = [one.check for one in stopped if one.result != "fail" or one.check in UNRELEASABLE]
    if fixed:
        return _MEND + _NOBODY.format(checks=", ".join(fixed))
    others = ", ".join(one.check for one in stopped[1:])
    return _MEND + _RELEASE.format(day=day, check=stopped[0].check) + (f" (and so for {others})" if others else "")
