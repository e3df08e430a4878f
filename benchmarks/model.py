"""`python -m benchmarks.model`: the demo's model beside logistic regression and gradient boosting, into docs/model.md.

Original calendar; every model sees the same rows of the same features, and chooses what it may choose (epoch, penalty,
number of trees) by the log loss of the same selection day. Intervals are those of the middle 95 % of 200 resamples
of a day's customers; differences are taken over the same resamples.
"""

from __future__ import annotations

import datetime as dt
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSettings, FeatureSpec
from profile_assets.models.calibrate import fit_calibration
from profile_assets.models.metrics import (
    Interval,
    auc,
    bootstrap_differences,
    bootstrap_intervals,
    calibration_error,
    log_loss,
    reliability,
)
from profile_assets.models.report import logits_of
from profile_assets.models.settings import NetworkSettings, TrainingSettings
from profile_assets.models.snapshot import LABEL, join_labels
from profile_assets.models.training import Trained, train
from profile_assets.users.demo_purchases import HORIZON_DAYS, label_table, profile_table, read_purchases

PAGE = Path(__file__).parents[1] / "docs" / "model.md"
BEGIN, END = "<!-- python -m benchmarks.model -->", "<!-- end -->"
REPORT_DAYS = (dt.date(1997, 12, 31), dt.date(1998, 3, 31))
RECALIBRATION_DAY, LAST_DAY = REPORT_DAYS
OURS, LINEAR, TREES = "this package", "logistic regression", "gradient boosting"
RECALIBRATED = f"this package, recalibrated on {RECALIBRATION_DAY}"
PENALTIES = (0.1, 1.0)
MOST_TREES = 150
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One model on one day."""

    day: str
    model: str
    auc: float
    log_loss: float
    ece: float
    auc_interval: Interval
    log_loss_interval: Interval


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Ours less another model on one day."""

    day: str
    model: str
    auc: Interval
    log_loss: Interval

    @property
    def is_worse(self) -> bool:
        """Whether ours is worse beyond noise."""
        return self.log_loss.low > 0 or self.auc.high < 0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that the page says."""

    figures: tuple[Figures, ...]
    differences: tuple[Difference, ...]
    epochs: int

    def of(self, day: str, model: str) -> Figures:
        return next(one for one in self.figures if (one.day, one.model) == (day, model))

    def better_peer(self, day: str) -> str:
        """The peer with the lower log loss."""
        return min((LINEAR, TREES), key=lambda model: self.of(day, model).log_loss)


def compare(**changes: Any) -> Comparison:
    """Train all three and measure them on the selection day and the report days. `changes` are training settings."""
    trained, snapshots, settings = train_demo(**changes)
    days = settings.measured_days
    logits = {OURS: {day: _ours(trained, snapshots[day]) for day in days}}
    logits |= _peers(trained.spec, snapshots, settings)
    labels = {day: _labels(snapshots[day]) for day in days}
    figures = [_figures(day, model, logits[model][day], labels[day]) for day in days for model in logits]
    figures.append(_figures(LAST_DAY, RECALIBRATED, _recalibrated(logits[OURS], labels), labels[LAST_DAY]))
    differences = [
        _difference(day, model, logits[OURS][day], logits[model][day], labels[day])
        for day in days
        for model in (LINEAR, TREES)
    ]
    return Comparison(figures=tuple(figures), differences=tuple(differences), epochs=int(trained.metrics["best_epoch"]))


def train_demo(**changes: Any) -> tuple[Trained, Mapping[dt.date, pa.Table], TrainingSettings]:
    """The demo's model, by the profile that the package carries, on the original calendar."""
    text = (importlib.resources.files("profile_assets") / "profiles/purchase_30d.toml").read_text()
    profile = tomllib.loads(text)
    model = profile["model"]
    features = [FeatureSettings(**feature) for feature in model.pop("features")]
    # One thread: the same sums, and no spinning beside other work.
    fields = {**profile["training"], "report_days": REPORT_DAYS, "threads": 1, **changes}
    settings = TrainingSettings(**fields)
    purchases = read_purchases()
    snapshots = {
        day: join_labels(
            day, profile_table(purchases, day), label_table(purchases, day).rename_columns(["user_id", LABEL])
        )
        for day in settings.days
    }
    network = NetworkSettings(**{**model, "hidden": tuple(model["hidden"])})
    return train(snapshots, features, network, settings, horizon_days=HORIZON_DAYS), snapshots, settings


def _ours(trained: Trained, table: pa.Table) -> np.ndarray:
    return trained.calibration.apply(logits_of(trained.network, encode(table, trained.spec)))


def _recalibrated(logits: Mapping[dt.date, np.ndarray], labels: Mapping[dt.date, np.ndarray]) -> np.ndarray:
    """Our logits of the last day, with what `training.recalibration` fits on the day before it."""
    return fit_calibration(logits[RECALIBRATION_DAY], labels[RECALIBRATION_DAY]).apply(logits[LAST_DAY])


def _labels(table: pa.Table) -> np.ndarray:
    return np.asarray(table.column(LABEL).to_numpy().astype(np.float64))


def _peers(
    spec: FeatureSpec, snapshots: Mapping[dt.date, pa.Table], settings: TrainingSettings
) -> dict[str, dict[dt.date, np.ndarray]]:
    """The logits of scikit-learn's models on each measured day."""
    from threadpoolctl import threadpool_limits

    learned = pa.concat_tables([snapshots[day] for day in settings.training_days])
    with threadpool_limits(1):
        return {
            LINEAR: _linear(spec, learned, snapshots, settings),
            TREES: _trees(spec, learned, snapshots, settings),
        }


def _linear(
    spec: FeatureSpec, learned: pa.Table, snapshots: Mapping[dt.date, pa.Table], settings: TrainingSettings
) -> dict[dt.date, np.ndarray]:
    """Logistic regression on standardised numbers, missing indicators and one-hot categories."""
    from sklearn.linear_model import LogisticRegression

    inputs, labels = _one_hot(learned, spec), _labels(learned)
    days = {day: _one_hot(snapshots[day], spec) for day in settings.measured_days}
    models = [LogisticRegression(C=penalty, max_iter=300, tol=1e-5).fit(inputs, labels) for penalty in PENALTIES]
    selection, truth = days[settings.selection_day], _labels(snapshots[settings.selection_day])
    best = min(models, key=lambda model: log_loss(model.decision_function(selection), truth))
    return {day: best.decision_function(rows) for day, rows in days.items()}


def _trees(
    spec: FeatureSpec, learned: pa.Table, snapshots: Mapping[dt.date, pa.Table], settings: TrainingSettings
) -> dict[dt.date, np.ndarray]:
    """Histogram gradient boosting on the numbers as they are and on categories as such."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    is_category = [False] * len(spec.numeric) + [True] * len(spec.categorical)
    model = HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_iter=MOST_TREES,
        max_leaf_nodes=15,
        min_samples_leaf=100,
        early_stopping=False,
        categorical_features=is_category,
        random_state=_SEED,
    ).fit(_columns(learned, spec), _labels(learned))
    truth = _labels(snapshots[settings.selection_day])
    staged = model.staged_predict_proba(_columns(snapshots[settings.selection_day], spec))
    losses = [log_loss(_logits(probabilities), truth) for probabilities in staged]
    best = int(np.argmin(losses))
    return {
        day: next(
            _logits(probabilities)
            for number, probabilities in enumerate(model.staged_predict_proba(_columns(snapshots[day], spec)))
            if number == best
        )
        for day in settings.measured_days
    }


def _logits(probabilities: np.ndarray) -> np.ndarray:
    share = np.clip(probabilities[:, 1], 1e-12, 1 - 1e-12)
    return np.asarray(np.log(share / (1 - share)))


def _one_hot(table: pa.Table, spec: FeatureSpec) -> np.ndarray:
    encoded = encode(table, spec)
    pairs = zip(spec.categorical, encoded.categories, strict=True)
    hot = [np.eye(feature.slots, dtype=np.float32)[slots] for feature, slots in pairs]
    return np.concatenate([encoded.numeric.T, *hot], axis=1)


def _columns(table: pa.Table, spec: FeatureSpec) -> np.ndarray:
    encoded = encode(table, spec)
    numbers = encoded.numeric[: len(spec.numeric)].astype(np.float64)
    numbers[encoded.numeric[len(spec.numeric) :] > 0] = np.nan
    return np.concatenate([numbers, encoded.categories]).T


def _figures(day: dt.date, model: str, logits: np.ndarray, labels: np.ndarray) -> Figures:
    by_auc, by_loss = bootstrap_intervals(logits, labels, seed=_SEED)
    assert by_auc is not None
    return Figures(
        day=day.isoformat(),
        model=model,
        auc=auc(logits, labels) or 0.0,
        log_loss=log_loss(logits, labels),
        ece=calibration_error(reliability(logits, labels)),
        auc_interval=by_auc,
        log_loss_interval=by_loss,
    )


def _difference(day: dt.date, model: str, ours: np.ndarray, theirs: np.ndarray, labels: np.ndarray) -> Difference:
    by_auc, by_loss = bootstrap_differences(ours, theirs, labels, seed=_SEED)
    assert by_auc is not None
    return Difference(day=day.isoformat(), model=model, auc=by_auc, log_loss=by_loss)


def rendered(found: Comparison) -> str:
    """The page's tables."""
    lines = ["| day | model | AUC | log loss | ECE |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.day} | {one.model} | {one.auc:.4f} {_interval(one.auc_interval, '.3f')} "
        f"| {one.log_loss:.4f} {_interval(one.log_loss_interval, '.3f')} | {one.ece:.4f} |"
        for one in found.figures
    ]
    lines += ["", "| day | this package less | AUC | log loss |", "|---|---|---|---|"]
    lines += [
        f"| {one.day} | {one.model} | {_interval(one.auc, '+.4f')} | {_interval(one.log_loss, '+.4f')} |"
        for one in found.differences
    ]
    return "\n".join(lines)


def _interval(interval: Interval, form: str) -> str:
    return f"[{interval.low:{form}}, {interval.high:{form}}]"


def on_page() -> dict[tuple[str, str], tuple[float, float, float]]:
    """AUC, log loss and ECE that the page states, by day and model."""
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    stated = [row for row in rows if len(row) == 5 and row[0][:1].isdigit()]
    return {
        (day, model): (float(area.split()[0]), float(loss.split()[0]), float(error))
        for day, model, area, loss, error in stated
    }


def main() -> None:
    """Measure, and write the tables into the page."""
    tables = rendered(compare())
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", encoding="utf-8")
    print(tables)


if __name__ == "__main__":
    main()
