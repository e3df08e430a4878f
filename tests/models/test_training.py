from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from profile_assets.errors import DataError, PermanentError
from profile_assets.features.spec import FeatureSettings
from profile_assets.models.bundle import load_bundle, write_bundle
from profile_assets.models.settings import NetworkSettings, TrainingSettings
from profile_assets.models.training import Epoch, train

FEATURES = (FeatureSettings(name="x"), FeatureSettings(name="group"))
NETWORK = NetworkSettings(hidden=(16,), embedding_dim=4, dropout=0.1)
FIRST = dt.date(2026, 1, 1)


def settings(**changes: Any) -> TrainingSettings:
    fields: dict[str, Any] = {
        "first_day": FIRST,
        "last_day": dt.date(2026, 1, 8),
        "selection_day": dt.date(2026, 2, 7),
        "report_days": (dt.date(2026, 3, 1),),
        "epochs": 4,
        "patience": 2,
        "learning_rate": 1e-2,
        "batch_rows": 256,
        "seed": 11,
    }
    return TrainingSettings(**{**fields, **changes})


def snapshots() -> dict[dt.date, pa.Table]:
    """2000 users a day whose label needs x and group together, which no linear model can see."""
    tables = {}
    for day in settings().days:
        draw, rows = np.random.default_rng(day.toordinal()), 2000
        x, group = draw.normal(size=rows), draw.integers(0, 2, rows)
        label = (draw.random(rows) < 1 / (1 + np.exp(-3 * x * (2 * group - 1)))).astype(np.float32)
        tables[day] = pa.table(
            {
                "user_id": [str(row) for row in range(rows)],
                "x": pa.array(x, mask=draw.random(rows) < 0.02),
                "group": np.array(["a", "b"])[group].tolist(),
                "label": label,
            }
        )
    return tables


def bundle_id(root: Path) -> str:
    """Trained and written under `root`. Also what the second process of the test below runs."""
    tables = snapshots()
    trained = train(tables, FEATURES, NETWORK, settings(), horizon_days=30)
    return write_bundle(
        root / "models",
        network=trained.network,
        network_settings=NETWORK,
        spec=trained.spec,
        schema=tables[FIRST].schema,
        metrics=trained.metrics,
        data_snapshot=trained.data_snapshot,
        provenance=trained.provenance,
        staging=root / "_staging",
    )


def test_two_processes_train_the_same_bundle(tmp_path: Path) -> None:
    torch.rand(100)  # whatever was drawn before does not matter
    code = "import pathlib, runpy, sys; print(runpy.run_path(sys.argv[1])['bundle_id'](pathlib.Path(sys.argv[2])))"
    command = [sys.executable, "-c", code, __file__, str(tmp_path / "other")]
    other = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    one = bundle_id(tmp_path / "one")
    assert one == other
    for name in ("weights.safetensors", "metrics.json", "data_snapshot.json", "golden.parquet"):
        paths = [tmp_path / root / "models" / one / name for root in ("one", "other")]
        assert paths[0].read_bytes() == paths[1].read_bytes()
    recorded = json.loads((tmp_path / "one" / "models" / one / "provenance.json").read_text())
    assert (recorded["training"]["seed"], recorded["training"]["threads"]) == (11, 1)
    assert load_bundle(tmp_path / "one" / "models" / one).metrics["days"][0]["role"] == "selection"


def test_the_report_compares_with_the_baseline_on_every_measured_day() -> None:
    epochs: list[Epoch] = []
    trained = train(snapshots(), FEATURES, NETWORK, settings(), horizon_days=30, progress=epochs.append)
    selection, report = trained.metrics["days"]
    assert (selection["day"], selection["role"]) == ("2026-02-07", "selection")
    assert "optimistic" in selection["note"]
    assert (report["day"], report["role"], report["note"], report["rows"]) == ("2026-03-01", "report", "", 2000)
    assert report["auc"] > 0.8 > 0.6 > report["baseline_auc"]
    assert report["log_loss"] < report["baseline_log_loss"]
    assert report["auc_difference"]["low"] > 0 > report["log_loss_difference"]["high"]
    assert not report["is_worse_than_baseline"]
    assert trained.metrics["epochs"] == len(epochs)
    assert epochs[trained.metrics["best_epoch"] - 1].is_best
    assert selection["log_loss"] == pytest.approx(min(epoch.selection_loss for epoch in epochs))


def test_a_network_that_is_worse_than_the_baseline_is_said_to_be() -> None:
    trained = train(snapshots(), FEATURES, NETWORK, settings(learning_rate=5.0, epochs=1, patience=1), horizon_days=30)
    assert all(day["is_worse_than_baseline"] for day in trained.metrics["days"])


def test_training_stops_when_patience_is_spent_and_keeps_the_best_epoch() -> None:
    epochs: list[Epoch] = []
    trained = train(
        snapshots(),
        FEATURES,
        NETWORK,
        settings(learning_rate=0.3, epochs=50, patience=2),
        horizon_days=30,
        progress=epochs.append,
    )
    best = min(epochs, key=lambda epoch: epoch.selection_loss)
    assert len(epochs) == best.number + 2 < 50
    assert trained.metrics["days"][0]["log_loss"] == pytest.approx(best.selection_loss)


def test_the_settings_of_torch_are_put_back() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    train(snapshots(), FEATURES, NETWORK, settings(epochs=1, threads=threads), horizon_days=30)
    assert torch.rand(1) == expected
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_no_value_of_the_measured_days_reaches_the_spec() -> None:
    tables = snapshots()
    day = dt.date(2026, 3, 1)
    group = tables[day].schema.get_field_index("group")
    tables[day] = tables[day].set_column(group, "group", pa.array(["later"] * 2000))
    trained = train(tables, FEATURES, NETWORK, settings(epochs=1), horizon_days=30)
    assert set(trained.spec.categorical[0].vocabulary) == {"a", "b"}
    assert trained.metrics["days"][1]["unknown"] == {"group": 2000}


def test_a_gap_shorter_than_the_horizon_is_refused_before_anything_is_learned() -> None:
    with pytest.raises(PermanentError, match="measured before 2026-02-08"):
        train({}, FEATURES, NETWORK, settings(), horizon_days=31)


def test_days_without_rows_are_all_named() -> None:
    tables = snapshots()
    del tables[FIRST]
    tables[dt.date(2026, 2, 7)] = tables[dt.date(2026, 2, 7)].slice(0, 0)
    with pytest.raises(DataError, match="2026-01-01, 2026-02-07"):
        train(tables, FEATURES, NETWORK, settings(), horizon_days=30)


@pytest.mark.parametrize(("what", "days"), [("training", ("2026-01-01", "2026-01-08")), ("selection", ("2026-02-07",))])
def test_labels_that_are_all_alike_teach_nothing(what: str, days: tuple[str, ...]) -> None:
    tables = snapshots()
    for day in map(dt.date.fromisoformat, days):
        tables[day] = tables[day].set_column(3, "label", pa.array(np.zeros(2000, np.float32)))
    with pytest.raises(DataError, match=f"labels of the {what} days are all alike"):
        train(tables, FEATURES, NETWORK, settings(), horizon_days=30)


def test_training_in_several_chunks_is_training() -> None:
    tables = snapshots()
    pieces = {day: pa.concat_tables([table.slice(0, 700), table.slice(700)]) for day, table in tables.items()}
    one, other = (train(each, FEATURES, NETWORK, settings(epochs=1), horizon_days=30) for each in (tables, pieces))
    assert one.metrics == other.metrics


def rarer() -> dict[dt.date, pa.Table]:
    """The snapshots with three of four positives left out."""
    tables = {}
    for day, table in snapshots().items():
        is_kept = (table["label"].to_numpy() == 0) | (np.arange(table.num_rows) % 4 == 0)
        tables[day] = table.filter(pa.array(is_kept))
    return tables


def test_balanced_labels_weigh_alike_and_scores_stay_probabilities() -> None:
    plain, balanced = (
        train(rarer(), FEATURES, NETWORK, settings(class_weights=weights, epochs=12), horizon_days=30)
        for weights in ("none", "balanced")
    )
    assert plain.calibration.is_identity
    assert balanced.calibration.shift < -0.5
    for one, other in zip(plain.metrics["days"], balanced.metrics["days"], strict=True):
        assert other["auc"] == pytest.approx(one["auc"], abs=0.02)
        assert other["ece"] < one["ece"] + 0.03 < other["uncalibrated_ece"]


def test_recalibration_on_a_later_day_moves_no_rank_and_says_that_it_looked() -> None:
    later = dt.date(2026, 4, 1)
    tables = {**snapshots(), later: rarer()[dt.date(2026, 3, 1)]}
    plain = train(tables, FEATURES, NETWORK, settings(), horizon_days=30)
    moved = train(tables, FEATURES, NETWORK, settings(recalibration_day=later), horizon_days=30)
    assert moved.calibration.shift < -0.5
    assert moved.calibration.scale > 0
    by_day = {day["day"]: day for day in moved.metrics["days"]}
    assert (by_day["2026-04-01"]["role"], by_day["2026-03-01"]["role"]) == ("recalibration", "report")
    assert "optimistic" in by_day["2026-04-01"]["note"]
    assert by_day["2026-04-01"]["ece"] < by_day["2026-04-01"]["uncalibrated_ece"] / 2
    assert by_day["2026-03-01"]["auc"] == pytest.approx(plain.metrics["days"][1]["auc"], abs=1e-9)
    roles = {day["day"]: day["role"] for day in moved.data_snapshot["days"]}
    assert roles["2026-04-01"] == "recalibration"


def test_the_environment_of_a_training_is_recorded() -> None:
    recorded = train(snapshots(), FEATURES, NETWORK, settings(epochs=1), horizon_days=30).provenance
    assert recorded["training"]["threads"] == 1
    assert recorded["cpu_capability"]
    assert len(recorded["lock_digest"]) == 64
    assert recorded["image_digest"] is None
