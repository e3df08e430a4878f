"""From a recipe to a bundle in the registry: read the snapshots, train, record where it all came from, write.

Dagster's asset and the command line both call `make_bundle`. It moves no pointer, except that the first bundle of
an empty registry becomes stable.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from profile_assets.errors import ProfileError
from profile_assets.models.bundle import write_bundle
from profile_assets.models.code_state import code_state
from profile_assets.models.recipe import Recipe
from profile_assets.models.registry import set_first_stable
from profile_assets.models.settings import check_split
from profile_assets.models.snapshot import join_labels
from profile_assets.models.training import Epoch, train
from profile_assets.storage.layout import Layout
from profile_assets.users.labels import is_known, read_labels
from profile_assets.users.land import clean_batches
from profile_assets.users.taking import source_digest


@dataclass(frozen=True, kw_only=True)
class Made:
    """A bundle that was just written."""

    bundle_id: str
    is_stable: bool
    rows: int
    metrics: Mapping[str, Any]


def make_bundle(recipe: Recipe, layout: Layout, *, progress: Callable[[str], None] = lambda _: None) -> Made:
    """Train a bundle by the recipe and write it. The caller decides what points to it.

    Raises what reading, joining and training raise; ProfileError where a day's labels are not known by then.
    """
    settings, horizon_days = recipe.training, recipe.labels.horizon_days
    check_split(settings, horizon_days)
    _require_known(settings.days, horizon_days, recipe.today)
    snapshots: dict[dt.date, pa.Table] = {}
    sources: dict[str, dict[str, str]] = {}
    for day in settings.days:
        snapshots[day], sources[day.isoformat()] = _snapshot(recipe, day)
        progress(f"{day}: {snapshots[day].num_rows:,} labelled users")
    trained = train(
        snapshots,
        recipe.features,
        recipe.network,
        settings,
        horizon_days=horizon_days,
        progress=lambda epoch: progress(_sentence(epoch)),
    )
    bundle_id = write_bundle(
        layout.models,
        network=trained.network,
        network_settings=recipe.network,
        spec=trained.spec,
        schema=recipe.contract.schema,
        metrics=trained.metrics,
        data_snapshot={**trained.data_snapshot, "sources": sources},
        provenance={**trained.provenance, "code": code_state()},
        staging=layout.scratch("models"),
        calibration=trained.calibration,
    )
    is_stable = set_first_stable(layout, bundle_id, "the first bundle")
    rows = int(trained.metrics["training_rows"])
    return Made(bundle_id=bundle_id, is_stable=is_stable, rows=rows, metrics=trained.metrics)


def _snapshot(recipe: Recipe, day: dt.date) -> tuple[pa.Table, dict[str, str]]:
    """The labelled users of a day, and the digests of the two sources they were read from."""
    digests = {
        "users": source_digest(recipe.source, recipe.contract, day),
        "labels": source_digest(recipe.labels.source, recipe.labels.contract, day),
    }
    batches = clean_batches(recipe.source, recipe.contract, day)
    users = pa.Table.from_batches(batches, recipe.contract.schema)
    return join_labels(day, users, read_labels(recipe.labels, day)), digests


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
