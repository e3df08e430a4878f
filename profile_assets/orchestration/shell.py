"""What every asset body shares: its day, its locks, our errors in Dagster's terms, and the verdict.

A stage that does not pass yields its failed check results and then raises `Failure`: the evaluations are stored,
nothing is recorded as materialized, nothing is retried, and the staged data stays where it is for a look.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from profile_assets.errors import PermanentError, TransientError
from profile_assets.quality.gates import Baseline
from profile_assets.storage import verdicts
from profile_assets.storage.atomic import locked
from profile_assets.storage.layout import Layout
from profile_assets.storage.stages import Staged
from profile_assets.storage.verdicts import Outcome

if TYPE_CHECKING:  # it comes with torch
    from profile_assets.scoring.day import ShardDone

Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext

RETRY_WAITS_S = (60, 600)
_LOGGER = logging.getLogger("profile_assets")


def day_of(context: dg.AssetExecutionContext) -> dt.date:
    """The day of the run's partition."""
    return dt.date.fromisoformat(context.partition_key)


@contextlib.contextmanager
def writing(
    context: dg.AssetExecutionContext, layout: Layout, stage: str, day: dt.date, *, reading: Sequence[str] = ()
) -> Iterator[None]:
    """Be the only writer of a stage's day, while nobody rewrites the stages it reads; translate errors.

    Locks are taken from the end of the pipeline to its start, in that order by all, so that no two wait in a circle.
    """
    with dagster_errors(context), contextlib.ExitStack() as held:
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
def dagster_errors(context: Context, *, retry_waits_s: Sequence[int] = RETRY_WAITS_S) -> Iterator[None]:
    """Permanent errors end the run at once; transient ones ask for a retry, as often as there are waits."""
    try:
        yield
    except PermanentError as error:
        raise dg.Failure(
            description=str(error), metadata={"what": error.what, "remedy": error.remedy}, allow_retries=False
        ) from error
    except TransientError as error:
        tried = context.retry_number
        warn(context, f"{error}; tried {tried + 1} of {len(retry_waits_s) + 1} times")
        wait_s = retry_waits_s[min(tried, len(retry_waits_s) - 1)]
        raise dg.RetryRequested(max_retries=len(retry_waits_s), seconds_to_wait=wait_s) from error


def warn(context: Context, message: str) -> None:
    """Into the run's log, and on the terminal of whoever started the run there: a long wait must not be silent."""
    context.log.warning(message)
    _LOGGER.warning(message)


def judged(
    context: dg.AssetExecutionContext,
    layout: Layout,
    day: dt.date,
    staged: Staged,
    outcomes: Sequence[Outcome],
    baseline: Baseline | None = None,
) -> Iterator[dg.AssetCheckResult]:
    """Record what was found about the staged data, show it, and stop the run unless all of it lets the day through."""
    stage = staged.manifest.stage
    verdicts.record(
        layout,
        day,
        verdicts.StageVerdict(
            stage=stage,
            digest=staged.manifest.digest,
            outcomes=tuple(outcomes),
            baseline_day=None if baseline is None else baseline.day,
            baseline_digest=None if baseline is None else baseline.digest,
        ),
    )
    yield from check_results(context.asset_key, outcomes, day)
    stop_if_failed(outcomes, stage, day)


def shard_logger(context: dg.AssetExecutionContext) -> Callable[[ShardDone], None]:
    """Tells the run's log of each finished shard."""

    def log(shard: ShardDone) -> None:
        how = "kept" if shard.is_kept else f"scored in {shard.seconds:.2f} s"
        context.log.info(f"{shard.name}: {shard.rows:,} users {how}; {shard.done} of {shard.total}")

    return log


def check_results(key: dg.AssetKey, outcomes: Iterable[Outcome], day: dt.date) -> Iterator[dg.AssetCheckResult]:
    """One result for each outcome that was evaluated; what was not stays open, which the UI shows as not executed."""
    for outcome in outcomes:
        if outcome.result != "not_evaluated":
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=outcome.check,
                passed=outcome.lets_through,
                description=outcome.detail,
                metadata=_check_metadata(outcome, day),
            )


def _check_metadata(outcome: Outcome, day: dt.date) -> dict[str, dg.MetadataValue | float | str]:
    numbers = {"observed": outcome.observed, "limit": outcome.limit, "baseline": outcome.baseline}
    metadata: dict[str, dg.MetadataValue | float | str] = {"day": day.isoformat(), "outcome": outcome.result}
    metadata |= {name: value for name, value in numbers.items() if value is not None}
    if outcome.table:
        records = [dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in outcome.table]
        metadata["table"] = dg.MetadataValue.table(records)
    return metadata


def _cell(value: object) -> str | int | float | bool:
    """What a table of the UI can hold; None becomes a dash."""
    return value if isinstance(value, str | int | float | bool) else "—" if value is None else str(value)


def stop_if_failed(outcomes: Sequence[Outcome], stage: str, day: dt.date) -> None:
    """Raise `Failure`, naming each check that does not let the day through."""
    stopped = [outcome for outcome in outcomes if not outcome.lets_through]
    if stopped:
        reasons = "".join(f"\n  {outcome.check} ({outcome.result}): {outcome.detail}" for outcome in stopped)
        raise dg.Failure(
            description=f"{stage} of {day} did not pass:{reasons}\nNothing was published; the staged data was kept "
            "-> look at the failed checks, mend the source or the limit in the profile, and run the day again",
            allow_retries=False,
        )
