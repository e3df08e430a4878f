"""The preprocessing that most scoring scripts have: pandas, a dictionary lookup a value, numbers filled and scaled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from profile_assets.features.spec import FIRST_SLOT, MISSING_SLOT, UNKNOWN_SLOT, FeatureSpec
from profile_assets.models.bundle import Bundle

Lookups = Mapping[str, Mapping[str, int]]


def lookups(spec: FeatureSpec) -> Lookups:
    """Value -> slot, for each category."""
    return {
        one.name: {value: slot for slot, value in enumerate(one.vocabulary, start=FIRST_SLOT)}
        for one in spec.categorical
    }


def score_frame(frame: pd.DataFrame, bundle: Bundle, slots: Lookups) -> np.ndarray:
    """float32 (rows,): encode by column and by value, one forward of the network as it was trained."""
    numbers = frame[[one.name for one in bundle.spec.numeric]].to_numpy(dtype=np.float64)
    means = np.array([one.mean for one in bundle.spec.numeric])
    deviations = np.array([one.std for one in bundle.spec.numeric])
    is_missing = np.isnan(numbers)
    scaled = np.where(is_missing, 0.0, (numbers - means) / deviations)
    numeric = np.concatenate([scaled, is_missing], axis=1).astype(np.float32).T
    categories = np.array([_slots(frame[name], known) for name, known in slots.items()], dtype=np.int64)
    with torch.no_grad():
        logits = bundle.network(torch.from_numpy(np.ascontiguousarray(numeric)), torch.from_numpy(categories))
        return np.asarray(torch.sigmoid(logits).numpy())


def _slots(column: pd.Series, known: Mapping[str, int]) -> list[int]:
    return [MISSING_SLOT if pd.isna(value) else known.get(value, UNKNOWN_SLOT) for value in column]
