"""Two scores of the same users beside each other: how they are spread, ordered, and where they disagree. numpy alone.

Shapes: n users; `published` and `shadow` are float32 of (n,), from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.quality.drift import psi

BINS = 32
TOP_SHARES = (0.01, 0.05, 0.1)
MAX_SEGMENTS = 20
MISSING = "—"


def compare(published: np.ndarray, shadow: np.ndarray, *, differs_by: float) -> dict[str, Any]:
    """The figures, as plain values; None for one that nobody's scores make."""
    apart = shadow.astype(np.float64) - published
    spreads = [_counts(scores) for scores in (published, shadow)]
    return {
        "rows": len(published),
        "published_mean": _number(published.mean(dtype=np.float64) if len(published) else math.nan),
        "shadow_mean": _number(shadow.mean(dtype=np.float64) if len(shadow) else math.nan),
        "published_counts": spreads[0].tolist(),
        "shadow_counts": spreads[1].tolist(),
        "psi": _number(psi(spreads[1], spreads[0])),
        "rank_correlation": _number(rank_correlation(published, shadow)),
        "overlaps": {f"{share:g}": _number(top_overlap(published, shadow, share)) for share in TOP_SHARES},
        "mean_difference": _number(np.abs(apart).mean() if len(apart) else math.nan),
        "largest_difference": _number(np.abs(apart).max() if len(apart) else math.nan),
        "disagreeing": int(np.count_nonzero(np.abs(apart) > differs_by)),
        "difference_counts": np.histogram(apart, bins=BINS, range=(-1.0, 1.0))[0].tolist(),
    }


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's: that of the ranks, equal scores having the mean of theirs. NaN where one side is all equal."""
    ranks = [_ranks(values) for values in (one, other)]
    centred = [rank - rank.mean() if len(rank) else rank for rank in ranks]
    spread = math.sqrt(float((centred[0] ** 2).sum()) * float((centred[1] ** 2).sum()))
    return float((centred[0] * centred[1]).sum()) / spread if spread > 0 else math.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts, dtype=np.float64)
    return np.asarray((last - (counts - 1) / 2)[places])


def top_overlap(one: np.ndarray, other: np.ndarray, share: float) -> float:
    """Of the highest share by one score, at least one user, which part is among as many highest by the other.

    Of equal scores at the border those that come first count, on both sides.
    """
    if not len(one):
        return math.nan
    size = max(1, round(len(one) * share))
    tops = [np.argsort(-values, kind="stable")[:size] for values in (one, other)]
    return len(np.intersect1d(tops[0], tops[1], assume_unique=True)) / size


def by_segment(
    segments: pa.ChunkedArray, published: np.ndarray, shadow: np.ndarray, *, differs_by: float
) -> list[dict[str, Any]]:
    """A row for each of the largest segments, and one for all others together where there are more."""
    apart = np.abs(shadow.astype(np.float64) - published)
    table = pa.table(
        {
            "segment": pc.fill_null(segments.cast(pa.string()), MISSING),
            "published": published.astype(np.float64),
            "shadow": shadow.astype(np.float64),
            "apart": apart,
            "disagreeing": (apart > differs_by).astype(np.int64),
        }
    )
    sums = [("published", "sum"), ("shadow", "sum"), ("apart", "sum"), ("disagreeing", "sum"), ("segment", "count")]
    rows = table.group_by("segment").aggregate(sums).to_pylist()
    rows.sort(key=lambda row: (-row["segment_count"], row["segment"]))
    told = [_segment(row["segment"], [row]) for row in rows[:MAX_SEGMENTS]]
    return told + ([_segment("all others", rows[MAX_SEGMENTS:])] if len(rows) > MAX_SEGMENTS else [])


def _segment(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    count = sum(row["segment_count"] for row in rows)
    return {
        "segment": name,
        "rows": count,
        "published_mean": sum(row["published_sum"] for row in rows) / count,
        "shadow_mean": sum(row["shadow_sum"] for row in rows) / count,
        "mean_difference": sum(row["apart_sum"] for row in rows) / count,
        "disagreeing_share": sum(row["disagreeing_sum"] for row in rows) / count,
    }


def _counts(scores: np.ndarray) -> np.ndarray:
    places = np.minimum((scores * np.float32(BINS)).astype(np.int64), BINS - 1)
    return np.bincount(places, minlength=BINS)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
