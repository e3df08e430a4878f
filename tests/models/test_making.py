from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from profile_assets.errors import ProfileError, SourceError
from profile_assets.models.bundle import load_bundle
from profile_assets.models.making import make_bundle
from profile_assets.models.recipe import Recipe
from profile_assets.models.registry import read_pointer
from profile_assets.models.settings import TrainingSettings
from profile_assets.storage.layout import Layout
from profile_assets.users.source import find_day

DAYS = (dt.date(2026, 1, 1), dt.date(2026, 1, 8), dt.date(2026, 1, 20))
NUM_USERS = 400


@pytest.fixture
def recipe(churn: Callable[..., Recipe]) -> Recipe:
    training = TrainingSettings(first_day=DAYS[0], last_day=DAYS[1], selection_day=DAYS[2], epochs=2)
    return churn(*DAYS, rows=NUM_USERS, training=training, today=dt.date(2026, 2, 1))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path / "data", name="churn")


def test_the_first_bundle_becomes_stable_and_a_later_one_moves_nothing(recipe: Recipe, layout: Layout):
    first = make_bundle(recipe, layout)
    other = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, seed=1))
    second = make_bundle(other, layout)
    assert (first.is_stable, second.is_stable) == (True, False)
    assert first.bundle_id != second.bundle_id
    pointer = read_pointer(layout, "stable")
    assert pointer is not None
    assert pointer.bundle_id == first.bundle_id


def test_the_same_recipe_gives_the_same_bundle(recipe: Recipe, layout: Layout):
    assert make_bundle(recipe, layout).bundle_id == make_bundle(recipe, layout).bundle_id


def test_the_bundle_says_what_it_was_trained_on(recipe: Recipe, layout: Layout):
    made = make_bundle(recipe, layout)
    bundle = load_bundle(layout.bundle(made.bundle_id))
    snapshot = json.loads((bundle.path / "data_snapshot.json").read_text())
    assert [day["day"] for day in snapshot["days"]] == [str(day) for day in DAYS]
    assert {day["rows"] for day in snapshot["days"]} == {NUM_USERS}
    assert snapshot["sources"]["2026-01-01"]["users"] == find_day(recipe.source, DAYS[0]).digest
    assert made.rows == 2 * NUM_USERS


def test_progress_names_the_days_and_the_epochs(recipe: Recipe, layout: Layout):
    told: list[str] = []
    make_bundle(recipe, layout, progress=told.append)
    assert told[0] == "2026-01-01: 400 labelled users"
    assert any(line.startswith("epoch 1: log loss ") for line in told)


def test_labels_that_are_not_known_yet_are_never_learned_from(recipe: Recipe, layout: Layout):
    with pytest.raises(ProfileError, match=r"2026-01-20.* are not known on 2026-01-27"):
        make_bundle(dataclasses.replace(recipe, today=dt.date(2026, 1, 27)), layout)


def test_a_training_day_without_a_source_is_named(recipe: Recipe, layout: Layout):
    missing = dataclasses.replace(recipe.training, report_days=(dt.date(2026, 1, 21),))
    with pytest.raises(SourceError, match="2026-01-21"):
        make_bundle(dataclasses.replace(recipe, training=missing), layout)
    assert read_pointer(layout, "stable") is None
