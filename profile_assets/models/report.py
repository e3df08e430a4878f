"""The report on a trained network: each measured day, beside the baseline, with how sure the difference is."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.baseline import LogisticRegression
from profile_assets.models.calibrate import Calibration
from profile_assets.models.metrics import (
    auc,
    bootstrap_differences,
    calibration_error,
    log_loss,
    reliability,
)
from profile_assets.models.settings import Role
from profile_assets.models.snapshot import LABEL

SCORE_BINS = 32
_EVALUATION_ROWS = 65_536
_NOTES: dict[Role, str] = {
    "selection": "this day chose the epoch: its figures are optimistic",
    "recalibration": "this day chose the calibration: its figures are optimistic",
}


def logits_of(network: nn.Module, encoded: Encoded) -> np.ndarray:
    """float32 (n,), in eval mode."""
    network.eval()
    numeric, categories = torch.from_numpy(encoded.numeric), torch.from_numpy(encoded.categories)
    with torch.inference_mode():
        parts = [
            network(*pair)
            for pair in zip(
                numeric.split(_EVALUATION_ROWS, dim=1), categories.split(_EVALUATION_ROWS, dim=1), strict=True
            )
        ]
        return np.asarray(torch.cat(parts).numpy())


def measure(
    network: nn.Module,
    calibration: Calibration,
    baseline: LogisticRegression,
    day: dt.date,
    table: pa.Table,
    spec: FeatureSpec,
    *,
    role: Role,
    seed: int,
) -> dict[str, Any]:
    """One row of the report. The intervals are those of network less baseline; `scores` counts them in even bins."""
    encoded, labels = encode(table, spec), table.column(LABEL).to_numpy().astype(np.float64)
    raw, theirs = logits_of(network, encoded), baseline.logits(encoded).numpy()
    ours = calibration.apply(raw)
    by_auc, by_loss = bootstrap_differences(ours, theirs, labels, seed=seed)
    curve = reliability(ours, labels)
    return {
        "day": day.isoformat(),
        "role": role,
        "note": _NOTES.get(role, ""),
        "rows": len(labels),
        "positives": int(labels.sum()),
        "auc": auc(ours, labels),
        "log_loss": log_loss(ours, labels),
        "ece": calibration_error(curve),
        "uncalibrated_ece": calibration_error(reliability(raw, labels)),
        "reliability": [asdict(one) for one in curve],
        "scores": np.histogram(1 / (1 + np.exp(-ours)), bins=SCORE_BINS, range=(0, 1))[0].tolist(),
        "baseline_auc": auc(theirs, labels),
        "baseline_log_loss": log_loss(theirs, labels),
        "baseline_ece": calibration_error(reliability(theirs, labels)),
        "auc_difference": None if by_auc is None else asdict(by_auc),
        "log_loss_difference": asdict(by_loss),
        "is_worse_than_baseline": by_loss.low > 0 or (by_auc is not None and by_auc.high < 0),
        "unknown": encoded.unknown,
    }
