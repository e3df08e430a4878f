"""The jobs and schedules of a profile. Schedules start switched off: no surprise history, no surprise load."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg

from profile_assets.orchestration.keys import (
    MODEL_BUNDLE,
    PUBLISHED,
    day_job_name,
    freshness_job_name,
    key_of,
    train_job_name,
)
from profile_assets.orchestration.source_ready import night
from profile_assets.profile import Deployment
from profile_assets.quality.freshness import ONE_DAY
from profile_assets.storage.layout import STAGES

if TYPE_CHECKING:  # what define_asset_job gives has no public name
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

MAX_RUNTIME_S = 4 * 3600


def day_job(deployment: Deployment) -> UnresolvedAssetJobDefinition:
    """All four stages of one day, in one process."""
    return dg.define_asset_job(
        day_job_name(deployment),
        selection=dg.AssetSelection.assets(*(key_of(deployment, stage) for stage in STAGES)),
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": str(MAX_RUNTIME_S)},
        description="Scores one day and publishes it.",
    )


def train_job(deployment: Deployment) -> UnresolvedAssetJobDefinition:
    """A new bundle. The day's job never trains."""
    return dg.define_asset_job(
        train_job_name(deployment),
        selection=dg.AssetSelection.assets(key_of(deployment, MODEL_BUNDLE)),
        executor_def=dg.in_process_executor,
        description="Trains a bundle; the first one of an empty registry becomes stable.",
    )


def check_job(deployment: Deployment, name: str, check: str, description: str) -> UnresolvedAssetJobDefinition:
    """One check of the published table alone."""
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.checks(dg.AssetCheckKey(key_of(deployment, PUBLISHED), check)),
        executor_def=dg.in_process_executor,
        description=description,
    )


def freshness_job(deployment: Deployment) -> UnresolvedAssetJobDefinition:
    """The freshness check alone."""
    return check_job(deployment, freshness_job_name(deployment), "fresh", "Is the newest due day published?")


def after_night(
    deployment: Deployment,
    job: UnresolvedAssetJobDefinition,
    name: str,
    *,
    hours: int,
    weekday: str = "*",
    unless: Callable[[], str | None],
    description: str,
) -> dg.ScheduleDefinition:
    """A schedule so many hours after the night's run; `unless` gives the reason to skip a tick, or None."""
    schedule = deployment.profile.schedule

    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=f"{schedule.minute} {(schedule.hour + hours) % 24} * * {weekday}",
        execution_timezone=deployment.profile.time_zone,
        description=description,
    )
    def tick(_context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        deployment.pull()
        reason = unless()
        return dg.RunRequest() if reason is None else dg.SkipReason(reason)

    return tick


def nightly(deployment: Deployment, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Yesterday, at the profile's hour."""
    schedule, zone = deployment.profile.schedule, deployment.profile.time_zone

    @dg.schedule(
        name=f"{deployment.profile.name}_nightly",
        job=job,
        cron_schedule=f"{schedule.minute} {schedule.hour} * * *",
        execution_timezone=zone,
        description=f"Scores yesterday at {schedule.hour:02d}:{schedule.minute:02d}, if its source is ready.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        tick = context.scheduled_execution_time.astimezone(ZoneInfo(zone))
        return night(deployment, tick.date() - ONE_DAY, tick)

    return nightly


def freshness_hourly(deployment: Deployment, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Freshness, once an hour."""
    return dg.ScheduleDefinition(
        name=f"{deployment.profile.name}_freshness_hourly",
        job=job,
        cron_schedule="5 * * * *",
        execution_timezone=deployment.profile.time_zone,
        description="Judges the freshness of the published table.",
    )


def source_check_daily(deployment: Deployment, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The sources of published days, once a day."""
    return dg.ScheduleDefinition(
        name=f"{deployment.profile.name}_source_check_daily",
        job=job,
        cron_schedule="20 6 * * *",
        execution_timezone=deployment.profile.time_zone,
        description="Compares the sources of published days with what was read.",
    )
