"""What chance alone does to a rate among few rows, so that a limit fires on faults and not on noise.

At ten million rows the allowances vanish and a limit is what the profile says; at eight they are wide. A limit of 0
stays 0 (and 1 stays 1): it says that there is to be none, and chance has no part in that.
"""

from __future__ import annotations

import math

DAY_DEVIATIONS = 3.0
SHARD_DEVIATIONS = 5.0  # a day has many shards, and each column is looked at in each


def widened_rate(limit: float, rows: float, deviations: float) -> float:
    """The greatest rate among `rows` that a true rate of `limit` explains: the upper end of Wilson's interval."""
    if limit <= 0 or limit >= 1 or rows <= 0:
        return limit
    weight = deviations**2 / rows
    spread = math.sqrt(weight * limit * (1 - limit) + weight**2 / 4)
    return (limit + weight / 2 + spread) / (1 + weight)


def widened_change(limit: float, rates: tuple[float, float], rows: tuple[float, float]) -> float:
    """The greatest difference of two rates, of so many rows each, that a true one of `limit` explains."""
    if limit <= 0 or min(rows) <= 0 or not all(map(math.isfinite, rates)):
        return limit
    pooled = (rates[0] * rows[0] + rates[1] * rows[1]) / (rows[0] + rows[1])
    return limit + DAY_DEVIATIONS * math.sqrt(max(0.0, pooled * (1 - pooled)) * (1 / rows[0] + 1 / rows[1]))


def widened_skew(limit: float, rows: float, parts: int) -> float:
    """The greatest share of the mean that one of `parts` may hold where rows are dealt by chance."""
    return limit if limit <= 0 or rows <= 0 else limit + SHARD_DEVIATIONS * math.sqrt(parts / rows)
