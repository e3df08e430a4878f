"""Real training on the demo's customers: the figures that the model is to reach, and the baseline beside it."""

from __future__ import annotations

import datetime as dt
import importlib.resources
import tomllib

import pyarrow as pa
import pytest

from profile_assets.features.spec import FeatureSettings
from profile_assets.models.settings import NetworkSettings, TrainingSettings
from profile_assets.models.snapshot import join_labels
from profile_assets.models.training import train
from profile_assets.users.demo_purchases import (
    HORIZON_DAYS,
    Purchases,
    label_table,
    profile_table,
    read_purchases,
)

EXPECTED = {"1997-09-30": (0.785, 0.225), "1997-12-31": (0.817, 0.190), "1998-03-31": (0.829, 0.182)}


def snapshot(purchases: Purchases, day: dt.date) -> pa.Table:
    labels = label_table(purchases, day).rename_columns(["user_id", "label"])
    return join_labels(day, profile_table(purchases, day), labels)


def test_the_demo_model_reaches_its_figures_and_is_no_worse_than_the_baseline() -> None:
    profile = tomllib.loads((importlib.resources.files("profile_assets") / "profiles/purchase_30d.toml").read_text())
    model, training = profile["model"], profile["training"]
    features = [FeatureSettings(**feature) for feature in model.pop("features")]
    # One thread: the same sums, and no spinning beside other tests.
    settings = TrainingSettings(
        **{**training, "report_days": (dt.date(1997, 12, 31), dt.date(1998, 3, 31)), "threads": 1}
    )
    purchases = read_purchases()
    trained = train(
        {day: snapshot(purchases, day) for day in settings.days},
        features,
        NetworkSettings(**{**model, "hidden": tuple(model["hidden"])}),
        settings,
        horizon_days=HORIZON_DAYS,
    )
    for day in trained.metrics["days"]:
        auc, log_loss = EXPECTED[day["day"]]
        assert day["auc"] == pytest.approx(auc, abs=0.01)
        assert day["log_loss"] == pytest.approx(log_loss, abs=0.005)
        assert not day["is_worse_than_baseline"]
