"""Which model a run scores its day with, as its tag asks, and what the day shows of it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import dagster as dg

from profile_assets.models.choosing import STABLE, Chosen, choose
from profile_assets.profile import Deployment
from profile_assets.quality.freshness import due_at

MODEL_TAG = "profile_assets/model"
"""The tag of a run that says by which model: stable (the default), as-of, or a bundle's id."""


def chosen_model(context: dg.AssetExecutionContext, deployment: Deployment, day: dt.date) -> Chosen:
    """BundleError where the tag names no model, or one that is not there."""
    asked = context.run.tags.get(MODEL_TAG, STABLE)
    return choose(deployment.layout, asked, due_at(day, deployment.due_rule))


def choice_metadata(chosen: Chosen) -> dict[str, Any]:
    """What was asked for, when that model was made, and whether it existed when the day was due."""
    return {
        "model": chosen.asked,
        "model_made_at": "not known" if chosen.made_at is None else chosen.made_at.isoformat(timespec="seconds"),
        "model_did_not_exist_yet": bool(chosen.is_later),
    }
