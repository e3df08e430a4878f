"""Training: snapshots of many days in, a network that was stopped in time and measured on days it never saw out.

Repeatable: the seed moves every draw, the number of threads every sum, and both are fixed here and recorded; twice
the same inputs on the same kind of CPU give the same weights, bit for bit, in any process. Torch's own settings
(threads, random state, determinism) are put back on leaving.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional

from profile_assets.errors import DataError
from profile_assets.features.bins import fit_bins
from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import FeatureSettings, FeatureSpec, fit_spec
from profile_assets.models.baseline import fit_baseline
from profile_assets.models.bundle_files import BINS
from profile_assets.models.metrics import log_loss
from profile_assets.models.network import WideAndDeep, build_network
from profile_assets.models.report import logits_of, measure
from profile_assets.models.settings import NetworkSettings, TrainingSettings, check_split
from profile_assets.models.snapshot import LABEL, record_of


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the training rows. Losses are log losses a row."""

    number: int
    training_loss: float
    selection_loss: float
    is_best: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What `write_bundle` needs, but for the settings and the schema."""

    network: WideAndDeep
    spec: FeatureSpec
    metrics: dict[str, Any]
    data_snapshot: dict[str, Any]
    provenance: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Encoded rows, row-major for shuffling: numeric (n, F), categories (n, C), labels (n,)."""

    encoded: Encoded
    numeric: Tensor
    categories: Tensor
    labels: Tensor


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
        rows, selection = _rows(learned, spec), _rows(snapshots[settings.selection_day], spec)
        network, epochs = _fit(rows, selection, spec, network_settings, settings, progress)
        baseline = fit_baseline(rows.encoded, rows.labels, spec)
        bins = fit_bins(rows.encoded, spec, 1 / (1 + np.exp(-logits_of(network, rows.encoded).astype(np.float64))))
        days = [
            measure(
                network,
                baseline,
                day,
                snapshots[day],
                spec,
                is_selection=day == settings.selection_day,
                seed=settings.seed,
            )
            for day in (settings.selection_day, *sorted(settings.report_days))
        ]
    best = max(epoch.number for epoch in epochs if epoch.is_best)
    return Trained(
        network=network,
        spec=spec,
        metrics={
            "days": days,
            "epochs": len(epochs),
            "best_epoch": best,
            "training_rows": learned.num_rows,
            BINS: bins.to_json(),
        },
        data_snapshot=record_of({day: snapshots[day] for day in settings.days}),
        provenance=_provenance(settings, horizon_days, epochs, time.perf_counter() - began),
    )


def _check_snapshots(snapshots: Mapping[dt.date, pa.Table], settings: TrainingSettings) -> None:
    absent = [day for day in settings.days if day not in snapshots or snapshots[day].num_rows == 0]
    if absent:
        raise DataError(
            f"training lacks the users and labels of {', '.join(map(str, absent))}",
            remedy="bring them, or change first_day, last_day, every_days, selection_day or report_days",
        )
    for what, days in (("training", settings.training_days), ("selection", (settings.selection_day,))):
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


def _rows(table: pa.Table, spec: FeatureSpec) -> _Rows:
    encoded = encode(table, spec)
    return _Rows(
        encoded=encoded,
        numeric=torch.from_numpy(encoded.numeric).t().contiguous(),
        categories=torch.from_numpy(encoded.categories).t().contiguous(),
        labels=torch.from_numpy(table.column(LABEL).to_numpy().astype(np.float32)),
    )


def _fit(
    rows: _Rows,
    selection: _Rows,
    spec: FeatureSpec,
    network_settings: NetworkSettings,
    settings: TrainingSettings,
    progress: Callable[[Epoch], None],
) -> tuple[WideAndDeep, list[Epoch]]:
    """Epochs until the selection day's log loss stops falling; the network of the best one."""
    network = build_network(network_settings, spec)
    network.start_at(float(rows.labels.mean()))
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    epochs: list[Epoch] = []
    best_loss, best_state = float("inf"), network.state_dict()
    for number in range(1, settings.epochs + 1):
        began = time.perf_counter()
        training_loss = _epoch(network, optimizer, rows, settings.batch_rows)
        loss = log_loss(logits_of(network, selection.encoded), selection.labels.numpy())
        is_best = loss < best_loss
        if is_best:
            best_loss, best_state = loss, copy.deepcopy(network.state_dict())
        epochs.append(
            Epoch(
                number=number,
                training_loss=training_loss,
                selection_loss=loss,
                is_best=is_best,
                seconds=time.perf_counter() - began,
            )
        )
        progress(epochs[-1])
        if not math.isfinite(loss):
            raise DataError(
                f"training diverged in epoch {number}: the selection day's log loss is {loss}",
                remedy="lower learning_rate, or look for extreme values among the features",
            )
        if number - max((one.number for one in epochs if one.is_best), default=0) >= settings.patience:
            break
    network.load_state_dict(best_state)
    return network.eval(), epochs


def _epoch(network: WideAndDeep, optimizer: torch.optim.Optimizer, rows: _Rows, batch_rows: int) -> float:
    """One shuffled pass; the mean log loss on the way."""
    network.train()
    total = 0.0
    for chosen in torch.randperm(len(rows.labels)).split(batch_rows):
        optimizer.zero_grad()
        logits = network(rows.numeric[chosen].t(), rows.categories[chosen].t())
        loss = functional.binary_cross_entropy_with_logits(logits, rows.labels[chosen])
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * len(chosen)
    return total / len(rows.labels)


def _provenance(
    settings: TrainingSettings, horizon_days: int, epochs: Sequence[Epoch], seconds: float
) -> dict[str, Any]:
    training = {key: _plain(value) for key, value in asdict(settings).items()}
    return {
        "training": {**training, "horizon_days": horizon_days},
        "epochs": [asdict(epoch) for epoch in epochs],
        "seconds": round(seconds, 3),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _plain(value: Any) -> Any:
    """Dates as text, for JSON."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, dt.date) else value
