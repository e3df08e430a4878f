"""Calibration: a scale and a shift of the logits, so that a score of 0.2 comes true in 20 of 100. numpy alone.

It moves no rank as long as the scale is positive. Platt's method (Platt 1999, with his smoothed targets), solved by
Newton's method in float64. It travels in a bundle's signature, so that the bundle's id covers it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from profile_assets.errors import BundleError, DataError

_STEPS = 100
_ENOUGH = 1e-10


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """logit -> scale * logit + shift."""

    scale: float = 1.0
    shift: float = 0.0

    @property
    def is_identity(self) -> bool:
        return self == Calibration()

    def apply(self, logits: np.ndarray) -> np.ndarray:
        """float64, of the same shape."""
        return self.scale * logits.astype(np.float64) + self.shift

    def after(self, first: Calibration) -> Calibration:
        """This one on top of `first`."""
        return Calibration(scale=self.scale * first.scale, shift=self.scale * first.shift + self.shift)

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Calibration:
        """As written by `to_json`; BundleError where it would turn ranks round or give no number."""
        try:
            found = cls(scale=float(value["scale"]), shift=float(value["shift"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _unusable(value) from error
        if not (math.isfinite(found.scale) and math.isfinite(found.shift) and found.scale > 0):
            raise _unusable(value)
        return found


def _unusable(value: object) -> BundleError:
    return BundleError(
        f"{value!r} is no calibration: a positive scale and a shift", remedy="promote another bundle, or train anew"
    )


def fit_calibration(logits: np.ndarray, labels: np.ndarray) -> Calibration:
    """The scale and shift under which labels (n,) of 0 and 1 are likeliest. DataError where ranks would turn round."""
    wide, target = logits.astype(np.float64), _smoothed(labels)
    spread = float(wide.std()) or 1.0
    centre = float(wide.mean())
    inputs = np.stack([(wide - centre) / spread, np.ones_like(wide)])
    weights = np.array([spread, centre])  # the identity
    for _ in range(_STEPS):
        rates = 1.0 / (1.0 + np.exp(-(weights @ inputs)))
        slope = inputs @ (rates - target)
        curve = (inputs * (rates * (1.0 - rates))) @ inputs.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        # Steps of more than a few units come from a flat start: halfway is still downhill there.
        weights = weights - step * min(1.0, 4.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < _ENOUGH:
            break
    scale = float(weights[0]) / spread
    if not scale > 0:
        raise DataError(
            f"on the day of recalibration scores and labels go opposite ways (scale {scale:.3g})",
            remedy="look at that day's labels; or set training.recalibration to none",
        )
    return Calibration(scale=scale, shift=float(weights[1]) - scale * centre)


def _smoothed(labels: np.ndarray) -> np.ndarray:
    """Platt's targets: a little less than 1 and more than 0, so that rows told apart perfectly give finite weights."""
    positives = float(labels.sum())
    negatives = len(labels) - positives
    return np.where(labels > 0, (positives + 1) / (positives + 2), 1 / (negatives + 2))
