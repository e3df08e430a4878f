"""The report on a trained network: each measured day, beside the baseline, with how sure the difference is."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.baseline import LogisticRegression
from profile_assets.models.metrics import auc, bootstrap_differences, log_loss
from profile_assets.models.network import WideAndDeep
from profile_assets.models.snapshot import LABEL

_EVALUATION_ROWS = 65_536


def logits_of(network: WideAndDeep, encoded: Encoded) -> np.ndarray:
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
    network: WideAndDeep,
    baseline: LogisticRegression,
    day: dt.date,
    table: pa.Table,
    spec: FeatureSpec,
    *,
    is_selection: bool,
    seed: int,
) -> dict[str, Any]:
    """One row of the report. The intervals are those of network less baseline."""
    encoded, labels = encode(table, spec), table.column(LABEL).to_numpy().astype(np.float64)
    ours, theirs = logits_of(network, encoded), baseline.logits(encoded).numpy()
    by_auc, by_loss = bootstrap_differences(ours, theirs, labels, seed=seed)
    return {
        "day": day.isoformat(),
        "role": "selection" if is_selection else "report",
        "note": "this day chose the epoch: its figures are optimistic" if is_selection else "",
        "rows": len(labels),
        "positives": int(labels.sum()),
        "auc": auc(ours, labels),
        "log_loss": log_loss(ours, labels),
        "baseline_auc": auc(theirs, labels),
        "baseline_log_loss": log_loss(theirs, labels),
        "auc_difference": None if by_auc is None else asdict(by_auc),
        "log_loss_difference": asdict(by_loss),
        "is_worse_than_baseline": by_loss.low > 0 or (by_auc is not None and by_auc.high < 0),
        "unknown": encoded.unknown,
    }
