"""How far a distribution moved: the population stability index over bins that are fixed, not fitted to the day.

PSI is the sum over the bins of (p - q) ln(p / q). It is a size of effect, so ten million rows do not make a trifle
big; each share is floored, so an empty bin is not infinitely far; and below a least number of rows it is not judged,
because there it measures chance: about (bins - 1) (1/n + 1/m) without any drift.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FLOOR = 1e-4
"""The least share that a bin is taken to hold."""


def psi(counts: Sequence[float] | np.ndarray, reference: Sequence[float] | np.ndarray) -> float:
    """The index of two histograms over the same bins, as counts or shares; NaN where either is empty."""
    found, before = (np.asarray(one, dtype=np.float64) for one in (counts, reference))
    if found.shape != before.shape or not found.sum() > 0 or not before.sum() > 0:
        return float("nan")
    shares = [np.maximum(one / one.sum(), FLOOR) for one in (found, before)]
    return float(((shares[0] - shares[1]) * np.log(shares[0] / shares[1])).sum())
