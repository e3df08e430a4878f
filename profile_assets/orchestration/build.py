"""One function from a deployment to everything that Dagster loads."""

from __future__ import annotations

import warnings

import dagster as dg

from profile_assets.orchestration.alerting import alert_sensors
from profile_assets.orchestration.arrivals import demo_arrivals
from profile_assets.orchestration.assets import daily_assets
from profile_assets.orchestration.canary import canary_check, canary_daily, canary_job
from profile_assets.orchestration.jobs import (
    day_job,
    freshness_hourly,
    freshness_job,
    nightly,
    source_check_daily,
    train_job,
)
from profile_assets.orchestration.model import model_bundle, stable_bundle
from profile_assets.orchestration.pruning import prune_daily, prune_job
from profile_assets.orchestration.published import freshness_check, published_scores
from profile_assets.orchestration.reconcile import reconcile_check, reconcile_job, reconcile_weekly, replace_job
from profile_assets.orchestration.restated import redo_job, source_check, source_check_job
from profile_assets.orchestration.shadow import shadow_job, shadow_nightly, shadow_scores
from profile_assets.orchestration.source_ready import source_ready
from profile_assets.profile import Deployment


def build_definitions(deployment: Deployment) -> dg.Definitions:
    """The graph, checks, jobs, schedules and sensor of one profile; every name in it begins with the profile's.

    Merge it into a code location of your own with `dg.Definitions.merge`. The executor runs a whole run in one
    process, so that the model is loaded once.
    """
    with warnings.catch_warnings():
        # Per-partition checks work, and are marked as a preview.
        warnings.filterwarnings("ignore", category=dg.PreviewWarning, message=".*partitions_def.*")
        day, freshness = day_job(deployment), freshness_job(deployment)
        source_checks, reconcile = source_check_job(deployment), reconcile_job(deployment)
        canary, shadow = canary_job(deployment), shadow_job(deployment)
        pruning = prune_job(deployment)
        own = dg.Definitions(
            assets=[
                *daily_assets(deployment),
                model_bundle(deployment),
                stable_bundle(deployment),
                published_scores(deployment),
                shadow_scores(deployment),
            ],
            asset_checks=[
                freshness_check(deployment),
                source_check(deployment),
                reconcile_check(deployment),
                canary_check(deployment),
            ],
            jobs=[
                day,
                train_job(deployment),
                freshness,
                source_checks,
                redo_job(deployment),
                reconcile,
                replace_job(deployment),
                canary,
                shadow,
                pruning,
            ],
            schedules=[
                nightly(deployment, day),
                freshness_hourly(deployment, freshness),
                source_check_daily(deployment, source_checks),
                reconcile_weekly(deployment, reconcile),
                canary_daily(deployment, canary),
                shadow_nightly(deployment, shadow),
                prune_daily(deployment, pruning),
            ],
            sensors=[source_ready(deployment, day), *alert_sensors(deployment)],
            executor=dg.in_process_executor,
        )
    return own if deployment.profile.replay is None else dg.Definitions.merge(own, demo_arrivals(deployment))
