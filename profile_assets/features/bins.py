"""Histograms of what the network sees, over bins that training fixed: what drift is later read from.

A number has bins between quantiles of its training values and one for missing; a category has one each for values
that training never saw, for missing, for its most frequent values, and one for all others. Edges are in standardised
units, as `encode` gives the numbers. The share of the training rows in each bin travels with the bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profile_assets.errors import BundleError
from profile_assets.features.encode import Encoded
from profile_assets.features.spec import FIRST_SLOT, CategoricalFeature, FeatureSpec

FORMAT = 1
NUM_BINS = 10
MAX_LEVELS = 20


@dataclass(frozen=True, kw_only=True)
class FeatureBins:
    """The bins of one feature: `edges` between those of a number, ascending; or how many `levels` a category has.

    `shares` are those of the training rows, missing last for a number.
    """

    shares: tuple[float, ...]
    edges: tuple[float, ...] = ()
    levels: int | None = None


@dataclass(frozen=True, kw_only=True)
class Bins:
    """The bins of every feature by name, and those of the scores, which have no bin for missing."""

    features: Mapping[str, FeatureBins]
    score: FeatureBins

    def count(self, encoded: Encoded, spec: FeatureSpec) -> dict[str, np.ndarray]:
        """How many rows fall into each bin, int64, by feature."""
        return {name: _count(encoded, spec, name, bins) for name, bins in self.features.items()}

    def to_json(self) -> dict[str, Any]:
        features = {name: _to_json(bins) for name, bins in self.features.items()}
        return {"format": FORMAT, "features": features, "score": _to_json(self.score)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Bins:
        """The bins as they were written; BundleError where they cannot be used."""
        try:
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}")
            features = {name: _from_json(bins) for name, bins in value["features"].items()}
            return cls(features=features, score=_from_json(value["score"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BundleError(
                f"the bins of the bundle's metrics cannot be used: {type(error).__name__}: {error}",
                remedy="promote another bundle, or train a new one",
            ) from error


def fit_bins(encoded: Encoded, spec: FeatureSpec, scores: np.ndarray) -> Bins:
    """Bins from the training rows and their scores, float (rows,)."""
    unshared = {
        **{one.name: FeatureBins(shares=(), edges=_edges_of(encoded, place)) for place, one in enumerate(spec.numeric)},
        **{one.name: FeatureBins(shares=(), levels=_levels_of(one)) for one in spec.categorical},
    }
    bins = Bins(features=unshared, score=FeatureBins(shares=(), edges=quantile_edges(scores)))
    counts = bins.count(encoded, spec)
    features = {name: _with_shares(one, counts[name]) for name, one in bins.features.items()}
    return Bins(features=features, score=_with_shares(bins.score, count_values(scores, bins.score.edges)))


def quantile_edges(values: np.ndarray) -> tuple[float, ...]:
    """The edges of NUM_BINS bins of about equal share; fewer where values repeat. float32 numbers."""
    if not len(values):
        return ()
    inner = np.unique(np.quantile(values, np.arange(1, NUM_BINS) / NUM_BINS).astype(np.float32))
    return tuple(float(edge) for edge in inner if edge > values.min())


def count_values(values: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """How many values lie below the first edge, from each edge to the next, and from the last on; int64.

    Comparing with each edge is several times as fast as a search among them. NaN counts as below all.
    """
    at_least = [np.count_nonzero(values >= np.float32(edge)) for edge in edges]
    return -np.diff(np.array([len(values), *at_least, 0], dtype=np.int64))


def _edges_of(encoded: Encoded, place: int) -> tuple[float, ...]:
    numbers = len(encoded.numeric) // 2
    return quantile_edges(encoded.numeric[place][encoded.numeric[numbers + place] == 0])


def _levels_of(category: CategoricalFeature) -> int:
    return min(MAX_LEVELS, len(category.vocabulary))


def _count(encoded: Encoded, spec: FeatureSpec, name: str, bins: FeatureBins) -> np.ndarray:
    place = spec.columns.index(name)
    numbers = len(spec.numeric)
    if bins.levels is not None:
        return _count_slots(encoded.categories[place - numbers], bins.levels)
    counts = count_values(encoded.numeric[place], bins.edges)
    missing = np.count_nonzero(encoded.numeric[numbers + place])
    counts[np.searchsorted(np.array(bins.edges, np.float32), np.float32(0), side="right")] -= missing  # encoded as 0
    return np.append(counts, missing)


def _count_slots(slots: np.ndarray, levels: int) -> np.ndarray:
    """Slots are in order of frequency: those beyond `levels` share the last bin."""
    last = FIRST_SLOT + levels
    return np.bincount(np.minimum(slots, last), minlength=last + 1)


def _with_shares(bins: FeatureBins, counts: np.ndarray) -> FeatureBins:
    shares = counts / max(1, int(counts.sum()))
    return FeatureBins(edges=bins.edges, levels=bins.levels, shares=tuple(float(share) for share in shares))


def _to_json(bins: FeatureBins) -> dict[str, Any]:
    return {"edges": list(bins.edges), "levels": bins.levels, "shares": list(bins.shares)}


def _from_json(value: Mapping[str, Any]) -> FeatureBins:
    edges, shares = tuple(map(float, value["edges"])), tuple(map(float, value["shares"]))
    if not all(map(math.isfinite, (*edges, *shares))) or list(edges) != sorted(edges):
        raise ValueError("edges or shares that are no ascending numbers")
    levels = None if value["levels"] is None else int(value["levels"])
    return FeatureBins(edges=edges, levels=levels, shares=shares)
