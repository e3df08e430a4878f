"""What was handed to a file, so that reading it again can prove it at a tenth of the cost of hashing every id anew.

Ids in their order have one digest, however they are cut into batches. Where the ids on disk have the digest of those
that were written, they are those, and have the same key set. Where they do not, their own key set is worked out.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from profile_assets.storage.keys import KeySet, key_set, md5_words
from profile_assets.storage.md5 import text_of


class IdOrder:
    """Ids as they come by, in their order: sha256 of their lengths and of their bytes, and how many."""

    def __init__(self) -> None:
        self.count = 0
        self._nulls = 0
        self._lengths, self._text = hashlib.sha256(), hashlib.sha256()

    def add(self, ids: pa.Array | pa.ChunkedArray) -> None:
        """The next ids, text in any dress."""
        for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]:
            data, offsets = text_of(chunk)
            self.count += len(chunk)
            self._nulls += chunk.null_count
            self._lengths.update(np.diff(offsets).tobytes())
            self._text.update(data[offsets[0] : offsets[-1]].data)

    def is_that_of(self, other: IdOrder) -> bool:
        """Whether the same ids came by in the same order. Null is no id: with one, nothing is the same."""
        return not (self._nulls or other._nulls) and self._state() == other._state()

    def _state(self) -> tuple[int, bytes, bytes]:
        return self.count, self._lengths.digest(), self._text.digest()


class Written:
    """The ids handed to one file: their order and their key set."""

    def __init__(self, order: IdOrder | None = None, keys: KeySet | None = None) -> None:
        self.order = IdOrder() if order is None else order
        self.keys = KeySet() if keys is None else keys

    def are(self, found: IdOrder) -> bool:
        """Whether what was found is what was written, so that `keys` are its key set."""
        return found.count == self.keys.count and found.is_that_of(self.order)

    def add(self, ids: pa.Array | pa.ChunkedArray, words: np.ndarray | None = None) -> np.ndarray:
        """The next ids; their md5 words, shape (rows, 2), which a caller who has them already hands in."""
        words = md5_words(ids) if words is None else words
        self.order.add(ids)
        self.keys += key_set(words)
        return words
