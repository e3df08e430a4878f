"""Which shard a user belongs to: int(md5(user_id), 16) mod n, exactly, for any n.

A shard can thus be recomputed from an id alone, in any language, on any day.
"""

from __future__ import annotations

import numpy as np

from profile_assets.errors import PermanentError

MAX_SHARDS = 2**31 - 1


def shard_numbers(words: np.ndarray, num_shards: int) -> np.ndarray:
    """The shard of each id, int64 of shape (rows,), from its md5 words (`storage.keys.md5_words`), shape (rows, 2).

    With the hash split as high * 2^64 + low, both halves and 2^64 are reduced first: no product reaches 2^63.
    """
    check_num_shards(num_shards)
    high, low = words[:, 0], words[:, 1]
    modulus = np.uint64(num_shards)
    carry = np.uint64(2**64 % num_shards)
    if carry == 0:  # a power of two: the low word alone decides
        return (low & (modulus - np.uint64(1))).astype(np.int64)
    return ((high % modulus * carry + low % modulus) % modulus).astype(np.int64)


def check_num_shards(num_shards: int) -> None:
    """PermanentError unless users can be dealt into that many shards."""
    if not 1 <= num_shards <= MAX_SHARDS:
        raise PermanentError(f"{num_shards} shards", remedy=f"choose a number of shards from 1 to {MAX_SHARDS}")
