"""How good scores are: AUC, log loss, calibration, and how sure one is that two models differ. numpy alone.

Shapes: n rows, B resamples. Scores come as logits, so that no loss is lost to rounding near 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

RESAMPLES = 200
RELIABILITY_BINS = 10
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The middle LEVEL of the resamples."""

    low: float
    high: float


def log_losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log of the probability given to what came true, float64 (n,)."""
    wide = logits.astype(np.float64)
    return np.asarray(np.logaddexp(0.0, wide) - labels * wide)


def log_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(log_losses(logits, labels).mean())


def auc(logits: np.ndarray, labels: np.ndarray) -> float | None:
    """The chance that a row labelled 1 outranks one labelled 0, ties counting half; None where a class is empty."""
    value = float(_aucs(logits, labels, np.ones((1, len(labels))))[0])
    return None if np.isnan(value) else value


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """Rows with neighbouring scores: their mean score, and the share of them labelled 1."""

    rows: int
    mean_score: float
    rate: float


def reliability(logits: np.ndarray, labels: np.ndarray, *, bins: int = RELIABILITY_BINS) -> list[ReliabilityBin]:
    """The reliability curve: rows by rising score, in `bins` groups of about equal size; equal scores stay together."""
    order = np.argsort(logits, kind="stable")
    ordered, truths = logits[order].astype(np.float64), labels[order].astype(np.float64)
    scores = 1.0 / (1.0 + np.exp(-ordered))
    cuts = np.unique(np.searchsorted(ordered, ordered[np.arange(1, bins) * len(ordered) // bins]))
    bounds = [0, *(int(cut) for cut in cuts if 0 < cut < len(ordered)), len(ordered)]
    return [
        ReliabilityBin(rows=high - low, mean_score=float(scores[low:high].mean()), rate=float(truths[low:high].mean()))
        for low, high in pairwise(bounds)
        if high > low
    ]


def calibration_error(curve: Sequence[ReliabilityBin]) -> float:
    """ECE: how far the rates are from the mean scores, on average over the rows (Naeini 2015, groups of equal size)."""
    rows = sum(one.rows for one in curve)
    return sum(one.rows * abs(one.rate - one.mean_score) for one in curve) / max(rows, 1)


def _aucs(logits: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The AUC of each resample, (B,). counts (B, n) says how often each row is in it; NaN where a class is empty."""
    order = np.argsort(logits, kind="stable")
    starts = np.flatnonzero(np.diff(logits[order], prepend=np.nan) != 0)  # NaN differs from all: the first row starts
    counts = counts[:, order]
    positives = np.add.reduceat(counts * labels[order], starts, axis=1)
    negatives = np.add.reduceat(counts, starts, axis=1) - positives
    below = np.cumsum(negatives, axis=1) - negatives
    won = (positives * (below + 0.5 * negatives)).sum(axis=1)
    pairs = positives.sum(axis=1) * negatives.sum(axis=1)
    return np.asarray(np.divide(won, pairs, out=np.full(len(won), np.nan), where=pairs > 0))


def bootstrap_differences(
    ours: np.ndarray, theirs: np.ndarray, labels: np.ndarray, *, seed: int, max_cells: int = 4_000_000
) -> tuple[Interval | None, Interval]:
    """Intervals of AUC(ours) - AUC(theirs) and of the log losses likewise, over the same resampled rows.

    Rows are drawn with replacement, RESAMPLES times (Efron's percentile bootstrap), `max_cells` of rows times
    resamples in memory at once. No AUC where a class is empty.
    """
    apart = log_losses(ours, labels) - log_losses(theirs, labels)
    aucs: list[np.ndarray] = []
    losses: list[np.ndarray] = []
    for counts in _resamples(len(labels), np.random.default_rng(seed), max_cells):
        aucs.append(_aucs(ours, labels, counts) - _aucs(theirs, labels, counts))
        losses.append(counts @ apart / len(labels))
    defined = np.concatenate(aucs)
    defined = defined[~np.isnan(defined)]
    return _interval(defined) if len(defined) else None, _interval(np.concatenate(losses))


def bootstrap_intervals(
    logits: np.ndarray, labels: np.ndarray, *, seed: int, max_cells: int = 4_000_000
) -> tuple[Interval | None, Interval]:
    """Intervals of the AUC and of the log loss, over the rows that `bootstrap_differences` draws for this seed."""
    losses = log_losses(logits, labels)
    drawn = list(_resamples(len(labels), np.random.default_rng(seed), max_cells))
    aucs = np.concatenate([_aucs(logits, labels, counts) for counts in drawn])
    defined = aucs[~np.isnan(aucs)]
    means = np.concatenate([counts @ losses / len(labels) for counts in drawn])
    return _interval(defined) if len(defined) else None, _interval(means)


def _resamples(rows: int, draw: np.random.Generator, max_cells: int) -> Iterator[np.ndarray]:
    """RESAMPLES rows of counts, in blocks of bounded memory, each (b, rows) float64."""
    block = max(1, min(RESAMPLES, max_cells // rows))
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        drawn = (np.bincount(draw.integers(0, rows, rows), minlength=rows) for _ in range(size))
        yield np.stack(list(drawn)).astype(np.float64)


def _interval(values: np.ndarray) -> Interval:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(low=float(low), high=float(high))
