"""Fitting: epochs of shuffled batches until the selection day's log loss stops falling, the best epoch kept."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional

from profile_assets.errors import DataError
from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.calibrate import Calibration
from profile_assets.models.metrics import log_loss
from profile_assets.models.network import Network, build_network
from profile_assets.models.report import logits_of
from profile_assets.models.settings import NetworkSettings, TrainingSettings
from profile_assets.models.snapshot import LABEL


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the training rows. Losses are log losses a row."""

    number: int
    training_loss: float
    selection_loss: float
    is_best: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Encoded rows, row-major for shuffling: numeric (n, F), categories (n, C), labels (n,)."""

    encoded: Encoded
    numeric: Tensor
    categories: Tensor
    labels: Tensor


def rows_of(table: pa.Table, spec: FeatureSpec) -> Rows:
    encoded = encode(table, spec)
    return Rows(
        encoded=encoded,
        numeric=torch.from_numpy(encoded.numeric).t().contiguous(),
        categories=torch.from_numpy(encoded.categories).t().contiguous(),
        labels=torch.from_numpy(table.column(LABEL).to_numpy().astype(np.float32)),
    )


def fit(
    rows: Rows,
    selection: Rows,
    spec: FeatureSpec,
    network_settings: NetworkSettings,
    settings: TrainingSettings,
    progress: Callable[[Epoch], None],
) -> tuple[Network, Calibration, list[Epoch]]:
    """Epochs until the selection day's log loss stops falling; the network of the best one, and what undoes weights.

    A label that weighs w times as much has w times the odds in the network's eyes, so log(w) is taken off again.
    """
    weight = _positive_weight(rows.labels, settings)
    calibration = Calibration() if weight is None else Calibration(shift=-math.log(weight))
    network = build_network(network_settings, spec)
    rate = float(rows.labels.mean())
    network.start_at(rate if weight is None else 0.5)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    epochs: list[Epoch] = []
    best_loss, best_state = float("inf"), network.state_dict()
    for number in range(1, settings.epochs + 1):
        began = time.perf_counter()
        training_loss = _epoch(network, optimizer, rows, settings.batch_rows, weight)
        loss = log_loss(calibration.apply(logits_of(network, selection.encoded)), selection.labels.numpy())
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
    return network.eval(), calibration, epochs


def _positive_weight(labels: Tensor, settings: TrainingSettings) -> float | None:
    """How much a row labelled 1 weighs beside one labelled 0; None where all weigh the same."""
    positives = float(labels.sum())
    return None if settings.class_weights == "none" else (len(labels) - positives) / positives


def _epoch(
    network: Network, optimizer: torch.optim.Optimizer, rows: Rows, batch_rows: int, weight: float | None
) -> float:
    """One shuffled pass; the mean loss on the way, which is the log loss where all labels weigh the same."""
    network.train()
    positive_weight = None if weight is None else torch.tensor(weight)
    total = 0.0
    for chosen in torch.randperm(len(rows.labels)).split(batch_rows):
        optimizer.zero_grad()
        logits = network(rows.numeric[chosen].t(), rows.categories[chosen].t())
        loss = functional.binary_cross_entropy_with_logits(logits, rows.labels[chosen], pos_weight=positive_weight)
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * len(chosen)
    return total / len(rows.labels)
