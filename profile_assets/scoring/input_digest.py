"""A digest of what the network sees of each user: 64 bits over the encoded row, never over the raw one.

A raw row may stand still while what is derived from it moves, and may change in columns that no feature reads. Two
users' digests are never compared, only two days of one user, under one bundle and one version of this code: 64 bits
then fail once in 10^19 comparisons. Rows that differ in one pair of neighbouring features never share a digest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from profile_assets.features.encode import CACHED_ROWS, Encoded

_SEED = np.uint64(0x243F6A8885A308D3)  # a row without features has a digest too
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing
_HALF = np.uint64(32)


def input_digests(encoded: Encoded) -> np.ndarray:
    """uint64 of shape (rows,), over the bits of the row's numbers, missing indicators and slots.

    0.0 and -0.0 are different bits: such a row is scored again, which is never wrong. NaN does not occur.
    """
    features = [*encoded.numeric.view(np.uint32), *encoded.categories.view(np.uint32)]
    digests = np.full(encoded.rows, _SEED, np.uint64)
    for start in range(0, encoded.rows, CACHED_ROWS):
        _mix([one[start : start + CACHED_ROWS] for one in features], digests[start : start + CACHED_ROWS])
    return digests


def _mix(features: list[np.ndarray], digests: np.ndarray) -> None:
    """Work some rows into their digests. Each step can be undone, so what differed before it differs after it."""
    moved = np.empty_like(digests)
    for word in _words(features, np.empty_like(digests), moved):
        np.bitwise_xor(digests, word, out=digests)
        np.multiply(digests, _FACTOR, out=digests)
        np.right_shift(digests, _HALF, out=moved)
        np.bitwise_xor(digests, moved, out=digests)


def _words(features: list[np.ndarray], word: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
    """Two features at a time as one 64-bit word, the last one alone where they are odd; always in the same array."""
    for place in range(0, len(features), 2):
        word[:] = features[place]
        if place + 1 < len(features):
            high[:] = features[place + 1]
            np.left_shift(high, _HALF, out=high)
            np.bitwise_or(word, high, out=word)
        yield word
