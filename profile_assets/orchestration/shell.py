"""What every asset body shares: its day, its locks, our errors in Dagster's terms, and what it says on the way."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from profile_assets.errors import PermanentError, TransientError
from profile_assets.orchestration.in_progress import sign
from profile_assets.orchestration.places import place_in
from profile_assets.profile import Deployment
from profile_assets.storage.atomic import locked

if TYPE_CHECKING:  # it comes with torch
    from profile_assets.scoring.day import ShardDone

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


def shard_logger(context: Context) -> Callable[[ShardDone], None]:
    """Tells the run's log of each finished shard."""

    def log(shard: ShardDone) -> None:
        how = "kept" if shard.is_kept else f"scored in {shard.seconds:.2f} s"
        how += f" ({shard.carried:,} carried)" if shard.carried else ""
        context.log.info(f"{shard.name}: {shard.rows:,} users {how}; {shard.done} of {shard.total}")
        if shard.halved_to is not None:
            context.log.warning(f"{shard.name}: memory was short, forwards of {shard.halved_to:,} rows")

    return log
