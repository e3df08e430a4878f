"""A stable share of the users, by a hash of their ids: the same users every day, whatever their shard.

The salt stands before the id, so that the share has nothing to do with the shards, which hash the id alone, nor with
a share of another salt. A larger share of one salt holds all users of a smaller one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.storage.md5 import md5_words

_BITS = 53  # of the hash: as many as a share between 0 and 1 can tell apart
_DROPPED = np.uint64(64 - _BITS)


def in_share(ids: pa.Array | pa.ChunkedArray, share: float, salt: str) -> np.ndarray:
    """Which of these users are in the share, bool of shape (rows,)."""
    plain = ids.cast(pa.string())
    chunks = plain.chunks if isinstance(plain, pa.ChunkedArray) else [plain]
    parts = [_in_share(chunk, share, salt) for chunk in chunks]
    return np.concatenate(parts) if parts else np.zeros(0, bool)


def _in_share(ids: pa.Array, share: float, salt: str) -> np.ndarray:
    salted = pc.binary_join_element_wise(pa.scalar(salt), ids, ":")
    words = md5_words(salted)
    return np.asarray(words[:, 0] >> _DROPPED < np.uint64(round(share * 2**_BITS)))
