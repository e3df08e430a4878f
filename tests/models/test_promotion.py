"""What a bundle has to show before it scores, and how one goes back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from profile_assets.errors import BundleError, GateError
from profile_assets.models.bundle import load_bundle, write_bundle
from profile_assets.models.bundle_files import SNAPSHOT, WEIGHTS
from profile_assets.models.grounds import Grounds, newest_matured_day
from profile_assets.models.making import make_bundle
from profile_assets.models.promotion import PromotionLimits, Review, promote, review, roll_back, try_beside
from profile_assets.models.recipe import Recipe
from profile_assets.models.registry import history, read_pointer
from profile_assets.models.settings import TrainingSettings
from profile_assets.storage.layout import Layout
from profile_assets.users.contract import Column, Contract

TRAINING, SELECTION, LATER = dt.date(2026, 1, 1), dt.date(2026, 1, 20), dt.date(2026, 2, 3)
LIMITS = PromotionLimits()
NUM_USERS = 2000


@pytest.fixture
def recipe(churn: Callable[..., Recipe]) -> Recipe:
    training = TrainingSettings(
        first_day=TRAINING, last_day=TRAINING, selection_day=SELECTION, epochs=3, learning_rate=0.05, batch_rows=256
    )
    return churn(TRAINING, SELECTION, LATER, rows=NUM_USERS, training=training, today=dt.date(2026, 3, 1))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path / "data", name="churn")


@pytest.fixture
def stable(recipe: Recipe, layout: Layout) -> str:
    return make_bundle(recipe, layout).bundle_id


@pytest.fixture
def variant(recipe: Recipe, layout: Layout, stable: str) -> Callable[[float], str]:
    """The stable bundle with every weight scaled: a candidate as good as one likes."""

    def make(factor: float) -> str:
        bundle = load_bundle(layout.bundle(stable))
        network = load_bundle(layout.bundle(stable)).network
        with torch.no_grad():
            for weight in network.parameters():
                weight *= factor
        return write_bundle(
            layout.models,
            network=network,  # type: ignore[arg-type]
            network_settings=bundle.settings,
            spec=bundle.spec,
            schema=recipe.contract.schema,
            metrics={},
            data_snapshot=json.loads((bundle.path / SNAPSHOT).read_text()),
            provenance={},
            staging=layout.scratch("models"),
        )

    return make


def look(recipe: Recipe, layout: Layout, candidate: str, limits: PromotionLimits = LIMITS) -> Review:
    return review(layout, recipe.contract, candidate, limits, grounds=recipe.grounds)


def results(found: Review) -> dict[str, str]:
    return {one.check: one.result for one in found.findings}


def test_a_bundle_as_good_as_stable_is_promoted_with_what_was_found(
    recipe: Recipe, layout: Layout, stable: str, variant: Callable[[float], str]
) -> None:
    candidate = variant(0.99)
    found = look(recipe, layout, candidate)
    assert results(found) == {"loads": "pass", "fits_contract": "pass", "compared": "pass"}
    assert found.findings[-1].numbers["day"] == LATER.isoformat()
    change = promote(layout, found, by="ana", why="smaller weights")
    assert change is not None
    assert (change.bundle_id, change.before, change.action) == (candidate, stable, "promote")
    assert change.evidence["findings"][-1]["numbers"]["rows"] == NUM_USERS
    assert history(layout)[-1] == change


def test_a_worse_bundle_is_not_and_is_only_by_force_and_that_is_recorded(
    recipe: Recipe, layout: Layout, stable: str, variant: Callable[[float], str]
) -> None:
    candidate = variant(-1.0)
    found = look(recipe, layout, candidate)
    assert results(found)["compared"] == "fail"
    with pytest.raises(GateError, match=r"compared \(fail\): on 2026-02-03 log loss .* --force"):
        promote(layout, found, by="ana", why="I like it")
    pointer = read_pointer(layout, "stable")
    assert pointer is not None
    assert pointer.bundle_id == stable
    change = promote(layout, found, by="ana", why="labels of that day are wrong", is_forced=True)
    assert change is not None
    assert (change.action, change.why) == ("forced promote", "labels of that day are wrong")
    assert change.evidence["is_forced"]


def test_limits_are_limits(recipe: Recipe, layout: Layout, stable: str, variant: Callable[[float], str]) -> None:
    del stable
    candidate = variant(0.8)
    loose = PromotionLimits(max_log_loss_rise=10.0, max_auc_drop=1.0)
    strict = PromotionLimits(max_log_loss_rise=0.0, max_auc_drop=0.0)
    assert results(look(recipe, layout, candidate, loose))["compared"] == "pass"
    assert results(look(recipe, layout, candidate, strict))["compared"] == "fail"


def test_the_first_bundle_is_exempt_from_comparison_alone(recipe: Recipe, layout: Layout, stable: str) -> None:
    for path in (layout.pointer("stable"), layout.registry_log):
        path.unlink()
    found = look(recipe, layout, stable)
    assert results(found) == {"loads": "pass", "fits_contract": "pass", "compared": "exempt"}
    assert promote(layout, found, by="ana", why="the first") is not None


def test_what_could_not_be_compared_is_no_pass(recipe: Recipe, layout: Layout, variant: Callable[[float], str]) -> None:
    candidate = variant(0.99)
    few = PromotionLimits(min_rows=NUM_USERS + 1)
    early = dataclasses.replace(recipe.grounds, today=LATER + dt.timedelta(days=7))  # its labels end today
    for found in (
        look(recipe, layout, candidate, few),
        review(layout, recipe.contract, candidate, LIMITS, grounds=early),
        review(layout, recipe.contract, candidate, LIMITS, grounds=None),
    ):
        assert results(found)["compared"] == "not_evaluated"
        with pytest.raises(GateError, match="not_evaluated"):
            promote(layout, found, by="ana", why="better")


def test_a_day_that_either_was_trained_on_compares_nothing(recipe: Recipe, layout: Layout, stable: str) -> None:
    del stable
    trained_later = dataclasses.replace(recipe.training, selection_day=LATER, seed=1)
    candidate = make_bundle(dataclasses.replace(recipe, training=trained_later), layout).bundle_id
    found = look(recipe, layout, candidate)
    assert "no matured day that neither" in found.findings[-1].detail


def test_a_damaged_bundle_is_never_promoted_not_even_by_force(
    recipe: Recipe, layout: Layout, variant: Callable[[float], str]
) -> None:
    candidate = variant(0.99)
    (layout.bundle(candidate) / WEIGHTS).write_bytes(b"short")
    found = look(recipe, layout, candidate)
    assert results(found) == {"loads": "fail"}
    with pytest.raises(GateError, match=r"weights\.safetensors is not what was sealed"):
        promote(layout, found, by="ana", why="x", is_forced=True)


def test_a_bundle_that_the_contract_cannot_feed_is_never_promoted(
    recipe: Recipe, layout: Layout, variant: Callable[[float], str]
) -> None:
    candidate = variant(0.99)
    contract = Contract(id="id", columns=(Column(name="plan", type=pa.int64()),))
    found = review(layout, contract, candidate, LIMITS, grounds=recipe.grounds)
    with pytest.raises(GateError, match="the contract has no column balance; plan is int64 in the contract"):
        promote(layout, found, by="ana", why="x", is_forced=True)
    with pytest.raises(BundleError, match="no column balance"):
        try_beside(layout, contract, "canary", candidate, by="ana", why="x")


def test_the_stable_bundle_is_not_tried_beside_itself(layout: Layout, stable: str, recipe: Recipe) -> None:
    with pytest.raises(BundleError, match="held against itself"):
        try_beside(layout, recipe.contract, "canary", stable, by="ana", why="x")


def test_what_was_promoted_meanwhile_is_not_overrun(
    recipe: Recipe, layout: Layout, variant: Callable[[float], str]
) -> None:
    one, other = variant(0.99), variant(0.98)
    stale = look(recipe, layout, one)
    promote(layout, look(recipe, layout, other), by="ben", why="first")
    with pytest.raises(BundleError, match=f"stable has become {other}"):
        promote(layout, stale, by="ana", why="second")


def test_a_rollback_is_one_step_and_never_to_a_bundle_that_cannot_score(
    recipe: Recipe, layout: Layout, stable: str, variant: Callable[[float], str]
) -> None:
    promote(layout, look(recipe, layout, variant(0.99)), by="ana", why="better")
    assert roll_back(layout, recipe.contract, by="ben", why="worse").bundle_id == stable
    previous = read_pointer(layout, "previous")
    assert previous is not None
    (layout.bundle(previous.bundle_id) / WEIGHTS).write_bytes(b"short")
    with pytest.raises(BundleError, match="is not what was sealed"):
        roll_back(layout, recipe.contract, by="ben", why="again")


def test_the_newest_matured_day(recipe: Recipe) -> None:
    grounds = recipe.grounds

    def newest(today: dt.date, **more: object) -> dt.date | None:
        return newest_matured_day(Grounds(**{**vars(grounds), "today": today}), **more)  # type: ignore[arg-type]

    matured = LATER + dt.timedelta(days=8)
    assert newest(matured) == LATER
    assert newest(matured - dt.timedelta(days=1)) == SELECTION
    assert newest(matured, apart_from={LATER}) == SELECTION
    assert newest(matured, first=LATER + dt.timedelta(days=1)) is None
    assert newest(TRAINING) is None


def test_recalibration_takes_the_newest_matured_day_and_is_no_days_report(recipe: Recipe, layout: Layout) -> None:
    training = dataclasses.replace(recipe.training, recalibration="newest")
    made = make_bundle(dataclasses.replace(recipe, training=training), layout)
    assert {day["day"]: day["role"] for day in made.metrics["days"]} == {
        str(SELECTION): "selection",
        str(LATER): "recalibration",
    }
    assert not load_bundle(layout.bundle(made.bundle_id)).calibration.is_identity
