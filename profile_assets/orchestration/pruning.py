"""The daily end of what is old, as a job with a schedule, and what the command line does of it.

The command works on the disk itself, without a run: it must also work where the disk is so full that Dagster cannot
write its own records.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
import logging
from collections.abc import Mapping

import dagster as dg

from profile_assets.errors import DiskError, StorageError
from profile_assets.orchestration.in_progress import days_in_progress
from profile_assets.orchestration.instance import open_instance
from profile_assets.orchestration.keys import prune_job_name
from profile_assets.orchestration.shell import working
from profile_assets.profile import Deployment
from profile_assets.upkeep.prune import Pruning, Removal, plan, prune

_LOGGER = logging.getLogger("profile_assets")


def prune_now(deployment: Deployment) -> Pruning:
    """Remove what is old, but for days that runs of the folder's instance work on."""
    return _prune(deployment, _busy())


def what_would_go(deployment: Deployment) -> Pruning:
    """What `prune_now` would remove."""
    return plan(deployment.layout, deployment.retention, today=deployment.today(), now=_now(), busy=_busy())


def _busy() -> dict[dt.date, str]:
    """The days that runs work on; none where Dagster cannot say so, as on a full disk, which is to be pruned. A day
    whose lock is held stays in any case.
    """
    try:
        with open_instance() as instance:
            return days_in_progress(instance)
    except (DiskError, StorageError) as error:
        _LOGGER.warning("only locks tell which days are worked on: %s", error.what)
        return {}


def prune_job(deployment: Deployment) -> dg.JobDefinition:
    """Removes what is old, and says what."""
    name = prune_job_name(deployment)

    @dg.op(name=f"{name}_op")
    def remove_old(context: dg.OpExecutionContext) -> None:
        with working(context, deployment):
            done = _prune(deployment, days_in_progress(context.instance))
            for removal in done.removals:
                context.log.info(_told(removal))
            for day, why in done.kept.items():
                context.log.info(f"{day} is kept: {why}")
            context.add_output_metadata({"removed": len(done.removals), "bytes": done.size_bytes})

    @dg.job(
        name=name, executor_def=dg.in_process_executor, description="Removes the data of days past their retention."
    )
    def prune_old() -> None:
        remove_old()

    return prune_old


def prune_daily(deployment: Deployment, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Once a day, away from the night's run."""
    return dg.ScheduleDefinition(
        name=f"{prune_job_name(deployment)}_daily",
        job=job,
        cron_schedule="40 12 * * *",
        execution_timezone=deployment.profile.time_zone,
        description="Removes the data of days past their retention.",
    )


def _prune(deployment: Deployment, busy: Mapping[dt.date, str]) -> Pruning:
    return prune(deployment.layout, deployment.retention, today=deployment.today(), now=_now(), busy=busy)


def _told(removal: Removal) -> str:
    return f"removed {removal.path} ({removal.size_bytes:,} bytes)"


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
