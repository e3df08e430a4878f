"""The names that Dagster shows; each asset's key begins with the profile's name."""

from __future__ import annotations

import dagster as dg

from profile_assets.profile import Deployment

MODEL_BUNDLE = "model_bundle"
STABLE_BUNDLE = "stable_bundle"
PUBLISHED = "published_scores"


def key_of(deployment: Deployment, asset: str) -> dg.AssetKey:
    """`purchase_30d/raw_users`: two profiles in one instance never meet."""
    return dg.AssetKey([deployment.profile.name, asset])


def day_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_day"


def freshness_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_freshness"


def train_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_train"


def redo_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_redo_restated"


def alerts_sensor_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_alerts"


def run_failures_sensor_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_run_failures"


def reconcile_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_reconcile"


def replace_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_reconcile_replace"


def prune_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_prune"


def canary_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_canary"


def shadow_job_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_shadow"


def source_sensor_name(deployment: Deployment) -> str:
    return f"{deployment.profile.name}_source_ready"
