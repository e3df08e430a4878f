"""Training: snapshots of many days in, a network that was stopped in time and measured on days it never saw out.

Repeatable: the seed moves every draw, the number of threads every sum, and both are fixed here and recorded; twice
the same inputs on the same kind of CPU give the same weights, bit for bit, in any process. Torch's own settings
(threads, random state, determinism) are put back on leaving.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from profile_assets.errors import DataError
from profile_assets.features.bins import fit_bins
from profile_assets.features.spec import FeatureSettings, FeatureSpec, fit_spec
from profile_assets.models.baseline import fit_baseline
from profile_assets.models.bundle_files import BINS
from profile_assets.models.calibrate import Calibration, fit_calibration
from profile_assets.models.environment import environment
from profile_assets.models.fitting import Epoch as Epoch
from profile_assets.models.fitting import fit, rows_of
from profile_assets.models.network import Network
from profile_assets.models.report import logits_of, measure
from profile_assets.models.settings import NetworkSettings, TrainingSettings, check_split
from profile_assets.models.snapshot import LABEL, record_of


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What `write_bundle` needs, but for the settings and the schema."""

    network: Network
    calibration: Calibration
    spec: FeatureSpec
    metrics: dict[str, Any]
    data_snapshot: dict[str, Any]
    provenance: dict[str, Any]


def train(
    snapshots: Mapping[dt.date, pa.Table],
    features: Sequence[FeatureSettings],
    network_settings: NetworkSettings,
    settings: TrainingSettings,
    *,
    horizon_days: int,
    progress: Callable[[Epoch], None] = lambda _epoch: None,
) -> Trained:
    """Train on the training days, stop by the selection day, measure on the report days.

    `snapshots` maps each of `settings.days` to its users with `label` (see `join_labels`). ProfileError where a
    measured day is not clear of the training labels; DataError where a day is absent, or the labels are all alike.
    """
    check_split(settings, horizon_days)
    _check_snapshots(snapshots, settings)
    began = time.perf_counter()
    learned = pa.concat_tables([snapshots[day] for day in settings.training_days])
    spec = fit_spec(features, learned)
    with _repeatable(settings):
        rows, selection = rows_of(learned, spec), rows_of(snapshots[settings.selection_day], spec)
        network, calibration, epochs = fit(rows, selection, spec, network_settings, settings, progress)
        calibration = _recalibrated(network, calibration, snapshots, spec, settings)
        baseline = fit_baseline(rows.encoded, rows.labels, spec)
        learned_logits = calibration.apply(logits_of(network, rows.encoded))
        bins = fit_bins(rows.encoded, spec, 1 / (1 + np.exp(-learned_logits)))
        days = [
            measure(
                network,
                calibration,
                baseline,
                day,
                snapshots[day],
                spec,
                role=settings.role(day),
                seed=settings.seed,
            )
            for day in settings.measured_days
        ]
    best = max(epoch.number for epoch in epochs if epoch.is_best)
    return Trained(
        network=network,
        calibration=calibration,
        spec=spec,
        metrics={
            "days": days,
            "epochs": len(epochs),
            "best_epoch": best,
            "training_rows": learned.num_rows,
            "calibration": calibration.to_json(),
            BINS: bins.to_json(),
        },
        data_snapshot=record_of({day: snapshots[day] for day in settings.days}, settings.role),
        provenance=_provenance(settings, horizon_days, epochs, time.perf_counter() - began),
    )


def _check_snapshots(snapshots: Mapping[dt.date, pa.Table], settings: TrainingSettings) -> None:
    absent = [day for day in settings.days if day not in snapshots or snapshots[day].num_rows == 0]
    if absent:
        raise DataError(
            f"training lacks the users and labels of {', '.join(map(str, absent))}",
            remedy="bring them, or change first_day, last_day, every_days, selection_day or report_days",
        )
    judged = [("training", settings.training_days), ("selection", (settings.selection_day,))]
    if settings.recalibration_day is not None:
        judged.append(("recalibration", (settings.recalibration_day,)))
    for what, days in judged:
        if len({value for day in days for value in snapshots[day].column(LABEL).unique().to_pylist()}) < 2:
            raise DataError(
                f"the labels of the {what} days are all alike", remedy="check the labels: there is nothing to learn"
            )


@contextlib.contextmanager
def _repeatable(settings: TrainingSettings) -> Iterator[None]:
    threads, strictness = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            torch.set_num_threads(settings.threads)
            # The same switch as use_deterministic_algorithms, which imports torch's compiler: 2 s or more.
            torch.set_deterministic_debug_mode("error")
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(strictness)


def _recalibrated(
    network: Network,
    calibration: Calibration,
    snapshots: Mapping[dt.date, pa.Table],
    spec: FeatureSpec,
    settings: TrainingSettings,
) -> Calibration:
    """With what the day of recalibration, if there is one, shows on top."""
    day = settings.recalibration_day
    if day is None:
        return calibration
    rows = rows_of(snapshots[day], spec)
    return fit_calibration(calibration.apply(logits_of(network, rows.encoded)), rows.labels.numpy()).after(calibration)


def _provenance(
    settings: TrainingSettings, horizon_days: int, epochs: Sequence[Epoch], seconds: float
) -> dict[str, Any]:
    training = {key: _plain(value) for key, value in asdict(settings).items()}
    return {
        "training": {**training, "horizon_days": horizon_days},
        "epochs": [asdict(epoch) for epoch in epochs],
        "seconds": round(seconds, 3),
        **environment(),
    }


def _plain(value: Any) -> Any:
    """Dates as text, for JSON."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, dt.date) else value
