"""Users who stand in a day more than once: found in 8 bytes a user (16 while sorting), and exactly.

While rows stream by, one 64-bit word of each id's md5 is kept. Words that occur twice make suspects; only then are the
ids read again and the suspects compared as text, so that two users who share a word are never taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from profile_assets.storage.keys import md5_words
from profile_assets.users.contract import Keep


class Repeats:
    """Collects the ids of a day."""

    def __init__(self) -> None:
        self._words: list[np.ndarray] = []

    def add(self, ids: pa.Array) -> None:
        self.add_words(md5_words(ids))

    def add_words(self, words: np.ndarray) -> None:
        """Ids by their md5 words, shape (rows, 2)."""
        self._words.append(np.ascontiguousarray(words[:, 0]))

    def suspects(self) -> np.ndarray:
        """The words that occur more than once, sorted; forgets what was collected."""
        words = np.concatenate(self._words) if self._words else np.zeros(0, dtype=np.uint64)
        self._words.clear()
        words.sort()
        return np.unique(words[1:][words[1:] == words[:-1]])


def rows_to_drop(ids: Iterable[pa.Array], suspects: np.ndarray, keep: Keep) -> np.ndarray:
    """The rows (counted from 0 over all ids, in order) that repeat a user and are not the one to keep. Sorted."""
    kept: dict[str, int] = {}
    dropped: list[int] = []
    start = 0
    for part in ids:
        places = np.flatnonzero(np.isin(md5_words(part)[:, 0], suspects))
        for place, user in zip(places.tolist(), part.take(pa.array(places)).to_pylist(), strict=True):
            row = start + place
            if user in kept:
                dropped.append(row if keep == "first" else kept[user])
            if user not in kept or keep == "last":
                kept[user] = row
        start += len(part)
    return np.array(sorted(dropped), dtype=np.int64)
