"""The jobs and schedules of a profile. Schedules start switched off: no surprise history, no surprise load."""

from __future__ import annotations

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


def freshness_job(deployment: Deployment) -> UnresolvedAssetJobDefinition:
    """The freshness check alone."""
    return dg.define_asset_job(
        freshness_job_name(deployment),
        selection=dg.AssetSelection.checks(dg.AssetCheckKey(key_of(deployment, PUBLISHED), "fresh")),
        executor_def=dg.in_process_executor,
        description="Is the newest due day published?",
    )


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
