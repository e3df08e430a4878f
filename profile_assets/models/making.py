"""From a recipe to a bundle in the registry: read the snapshots, train, record where it all came from, write.

Dagster's asset and the command line both call `make_bundle`. It moves no pointer, except that the first bundle of
an empty registry becomes stable.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from profile_assets.errors import ProfileError
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle import write_bundle
from profile_assets.models.code_state import made_by
from profile_assets.models.grounds import digests_of, labelled_users, newest_matured_day
from profile_assets.models.recipe import Recipe
from profile_assets.models.registry import STABLE, read_pointer, set_first_stable
from profile_assets.models.settings import TrainingSettings, check_split, first_clear_day
from profile_assets.models.training import Epoch, train
from profile_assets.storage.layout import Layout
from profile_assets.users.labels import is_known


@dataclass(frozen=True, kw_only=True)
class Made:
    """A bundle that was just written. `is_stable`: it scores, whether it does so since just now or since long ago."""

    bundle_id: str
    is_stable: bool
    rows: int
    metrics: Mapping[str, Any]
    spec: FeatureSpec
    data_snapshot: Mapping[str, Any]
    provenance: Mapping[str, Any]


def make_bundle(recipe: Recipe, layout: Layout, *, progress: Callable[[str], None] = lambda _: None) -> Made:
    """Train a bundle by the recipe and write it. The caller decides what points to it.

    Raises what reading, joining and training raise; ProfileError where a day's labels are not known by then.
    """
    grounds, horizon_days = recipe.grounds, recipe.labels.horizon_days
    settings = _with_recalibration_day(recipe)
    check_split(settings, horizon_days)
    _require_known(settings.days, horizon_days, recipe.today)
    snapshots: dict[dt.date, pa.Table] = {}
    sources: dict[str, dict[str, str]] = {}
    for day in settings.days:
        sources[day.isoformat()] = digests_of(grounds, day)
        snapshots[day] = labelled_users(grounds, day)
        progress(f"{day}: {snapshots[day].num_rows:,} labelled users")
    trained = train(
        snapshots,
        recipe.features,
        recipe.network,
        settings,
        horizon_days=horizon_days,
        progress=lambda epoch: progress(_sentence(epoch)),
    )
    data_snapshot = {**trained.data_snapshot, "sources": sources}
    provenance = {**trained.provenance, **made_by()}
    bundle_id = write_bundle(
        layout.models,
        network=trained.network,
        network_settings=recipe.network,
        spec=trained.spec,
        schema=recipe.contract.schema,
        metrics=trained.metrics,
        data_snapshot=data_snapshot,
        provenance=provenance,
        staging=layout.scratch("models"),
        calibration=trained.calibration,
    )
    set_first_stable(layout, bundle_id, "the first bundle")
    stable = read_pointer(layout, STABLE)
    return Made(
        bundle_id=bundle_id,
        is_stable=stable is not None and stable.bundle_id == bundle_id,
        rows=int(trained.metrics["training_rows"]),
        metrics=trained.metrics,
        spec=trained.spec,
        data_snapshot=data_snapshot,
        provenance=provenance,
    )


def _with_recalibration_day(recipe: Recipe) -> TrainingSettings:
    """The settings with the day of recalibration, if the profile asks for one: the newest matured one."""
    settings = recipe.training
    if settings.recalibration == "none":
        return settings
    clear = first_clear_day(settings, recipe.labels.horizon_days)
    day = newest_matured_day(recipe.grounds, first=clear, apart_from=(settings.selection_day,))
    if day is None:
        raise ProfileError(
            f"no day from {clear} on has users and labels that are known on {recipe.today} to recalibrate on",
            remedy="bring one, or set training.recalibration to none",
        )
    return dataclasses.replace(settings, recalibration_day=day)


def _require_known(days: tuple[dt.date, ...], horizon_days: int, today: dt.date) -> None:
    unknown = [str(day) for day in days if not is_known(day, horizon_days, today)]
    if unknown:
        raise ProfileError(
            f"the labels of {', '.join(unknown)} are not known on {today}: they look {horizon_days} days ahead",
            remedy="train on earlier days, or wait",
        )


def _sentence(epoch: Epoch) -> str:
    best = ", the best so far" if epoch.is_best else ""
    losses = f"log loss {epoch.training_loss:.4f}, on the selection day {epoch.selection_loss:.4f}"
    return f"epoch {epoch.number}: {losses}{best}"
