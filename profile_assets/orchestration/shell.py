"""What every asset body shares: its day, its locks, our errors in Dagster's terms, and the verdict.

A stage that does not pass yields its failed check results and then raises `Failure`: the evaluations are stored,
nothing is recorded as materialized, nothing is retried, and the staged data stays where it is for a look.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from profile_assets.errors import GateError, PermanentError, TransientError
from profile_assets.orchestration.failures import GATE
from profile_assets.orchestration.in_progress import sign
from profile_assets.orchestration.places import place_in
from profile_assets.profile import Deployment
from profile_assets.quality.gates import Baselines
from profile_assets.storage import verdicts
from profile_assets.storage.atomic import locked
from profile_assets.storage.layout import EXPORT, Layout
from profile_assets.storage.outcomes import UNRELEASABLE
from profile_assets.storage.stages import Staged
from profile_assets.storage.verdicts import Outcome, Release, StageVerdict

if TYPE_CHECKING:  # it comes with torch
    from profile_assets.scoring.day import ShardDone

CheckMetadata = dict[str, dg.MetadataValue | float | str]
Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext

TRANSIENT = "is_transient"
"""Metadata of a failure that another run may not have."""

_LOGGER = logging.getLogger("profile_assets")


def day_of(context: dg.AssetExecutionContext) -> dt.date:
    """The day of the run's partition."""
    return dt.date.fromisoformat(context.partition_key)


@contextlib.contextmanager
def writing(
    context: dg.AssetExecutionContext,
    deployment: Deployment,
    stage: str,
    day: dt.date,
    *,
    reading: Sequence[str] = (),
    pool: str | None = None,
) -> Iterator[None]:
    """Be the only writer of a stage's day, while nobody rewrites the stages it reads, in a place of the pool if one is
    named; translate errors.

    Locks are taken from the end of the pipeline to its start, in that order by all, so that no two wait in a circle.
    """
    layout = deployment.layout
    with working(context, deployment, day), contextlib.ExitStack() as held:
        held.enter_context(place_in(pool, context, on_wait=lambda message: warn(context, message)))
        for name in (stage, *reversed(reading)):
            held.enter_context(
                locked(
                    layout.day_lock(name, day),
                    what=f"{name} of {day}",
                    is_shared=name != stage,
                    on_wait=lambda message: warn(context, message),
                )
            )
        yield


@contextlib.contextmanager
def working(context: Context, deployment: Deployment, *days: dt.date) -> Iterator[None]:
    """On what is true now, the rows of `days` included, where that lies on S3; errors as `dagster_errors` has them,
    with the profile's retries.
    """
    with dagster_errors(context, retry_waits_s=deployment.retry_waits_s):
        deployment.pull(*days)
        yield


@contextlib.contextmanager
def dagster_errors(context: Context, *, retry_waits_s: Sequence[float] = ()) -> Iterator[None]:
    """Permanent errors end the run at once; transient ones ask for a retry, as often as there are waits.

    The wait is here, not in Dagster: its own cannot be interrupted, and a cancelled run would sit it out.
    """
    if not context.instance.is_ephemeral:
        sign(context.instance, context.run)
    try:
        yield
    except PermanentError as error:
        raise dg.Failure(
            description=str(error), metadata={"what": error.what, "remedy": error.remedy}, allow_retries=False
        ) from error
    except TransientError as error:
        tried = context.retry_number if retry_waits_s else 0
        told = f"{error}; tried {tried + 1} of {len(retry_waits_s) + 1} times"
        if tried >= len(retry_waits_s):
            metadata: dict[str, str | bool] = {"what": error.what, "remedy": error.remedy, TRANSIENT: True}
            raise dg.Failure(description=told, metadata=metadata, allow_retries=False) from error
        warn(context, f"{told}; again in {retry_waits_s[tried]:g} s")
        time.sleep(retry_waits_s[tried])
        raise dg.RetryRequested(max_retries=len(retry_waits_s), seconds_to_wait=0) from error


def warn(context: Context, message: str) -> None:
    """Into the run's log, and on the terminal of whoever started the run there: a long wait must not be silent."""
    context.log.warning(message)
    _LOGGER.warning(message)


def tell(context: Context, message: str) -> None:
    """Progress: into the run's log, and to whoever started the run at a terminal and listens."""
    context.log.info(message)
    _LOGGER.info(message)


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


def shard_logger(context: Context) -> Callable[[ShardDone], None]:
    """Tells the run's log of each finished shard."""

    def log(shard: ShardDone) -> None:
        how = "kept" if shard.is_kept else f"scored in {shard.seconds:.2f} s"
        how += f" ({shard.carried:,} carried)" if shard.carried else ""
        context.log.info(f"{shard.name}: {shard.rows:,} users {how}; {shard.done} of {shard.total}")
        if shard.halved_to is not None:
            context.log.warning(f"{shard.name}: memory was short, forwards of {shard.halved_to:,} rows")

    return log


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
