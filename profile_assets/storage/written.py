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
        return not (self._nulls or other._nulls) and self.state == other.state

    @property
    def digest(self) -> bytes:
        """sha256 of the ids that came by so far; nulls are counted, but stand nowhere."""
        return hashlib.sha256(b"%d %d %s %s" % (self._nulls, *self.state)).digest()

    @property
    def state(self) -> tuple[int, bytes, bytes]:
        return self.count, self._lengths.digest(), self._text.digest()


class ScoreOrder:
    """Ids and the score beside each, in their order: one digest, however they are cut into batches."""

    def __init__(self) -> None:
        self.ids = IdOrder()
        self._nulls = 0
        self._scores = hashlib.sha256()

    def add(self, ids: pa.Array | pa.ChunkedArray, scores: pa.Array | pa.ChunkedArray) -> None:
        """The next ids, text in any dress, and as many scores, float32."""
        self.ids.add(ids)
        for chunk in scores.chunks if isinstance(scores, pa.ChunkedArray) else [scores]:
            self._nulls += chunk.null_count
            self._scores.update(np.ascontiguousarray(chunk.to_numpy(zero_copy_only=False), np.float32).data)

    @property
    def digest(self) -> str:
        """sha256 of what came by so far, bit by bit: NaN is NaN, and -0 is not 0."""
        return hashlib.sha256(b"%d %s %s" % (self._nulls, self.ids.digest, self._scores.digest())).hexdigest()


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
