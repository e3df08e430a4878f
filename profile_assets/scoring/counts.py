"""What is counted of the rows of a file while they are scored, for the gates and pictures to read in its footer."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from profile_assets.features.bins import Bins
from profile_assets.features.encode import Encoded
from profile_assets.features.spec import FeatureSpec

UNKNOWN = "unknown"  # footer key, JSON: by category, how many values training had never seen
HISTOGRAMS = "histograms"  # footer key, JSON: by feature, how many rows in each of the bundle's bins


class Counts:
    """Unknown categories, and rows in the bundle's bins."""

    def __init__(self, spec: FeatureSpec, bins: Bins | None) -> None:
        self._spec = spec
        self._bins = bins
        self._unknown = {feature.name: 0 for feature in spec.categorical}
        features = {} if bins is None else bins.features
        self._histograms = {name: np.zeros(len(one.shares), np.int64) for name, one in features.items()}

    def watch(
        self, blocks: Iterator[tuple[pa.ChunkedArray, Encoded]]
    ) -> Generator[tuple[pa.ChunkedArray, Encoded], None, None]:
        """The same blocks, counted."""
        for ids, encoded in blocks:
            self.add(encoded)
            yield ids, encoded

    def add(self, encoded: Encoded) -> None:
        """Count some rows."""
        for name, count in encoded.unknown.items():
            self._unknown[name] += count
        if self._bins is not None:
            for name, counts in self._bins.count(encoded, self._spec).items():
                self._histograms[name] += counts

    @property
    def footer(self) -> dict[str, str]:
        histograms = {name: counts.tolist() for name, counts in self._histograms.items()}
        return {UNKNOWN: json.dumps(self._unknown), HISTOGRAMS: json.dumps(histograms)}
