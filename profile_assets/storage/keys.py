"""Which users stand in a table, as a number that no accident keeps: the key-set digest.

The digest is the sum modulo 2^128 of md5(user_id), beside the count. A sum, because XOR would take {e, e} for
{f, f}; beside the count, because a lost row and a doubled one cancel in a count alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from profile_assets.storage.md5 import md5_words as md5_words  # part of what this module offers

_MODULUS = 1 << 128
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class KeySet:
    """A multiset of ids: how many, and the sum of their md5 modulo 2^128."""

    count: int = 0
    md5_sum: int = 0

    def __add__(self, other: KeySet) -> KeySet:
        return KeySet(count=self.count + other.count, md5_sum=(self.md5_sum + other.md5_sum) % _MODULUS)

    def to_json(self) -> dict[str, object]:
        return {"count": self.count, "md5_sum": f"{self.md5_sum:032x}"}

    @classmethod
    def from_json(cls, value: dict[str, object]) -> KeySet:
        return cls(count=int(str(value["count"])), md5_sum=int(str(value["md5_sum"]), 16))

    @classmethod
    def total(cls, parts: Iterable[KeySet]) -> KeySet:
        return sum(parts, cls())


def key_set(words: np.ndarray) -> KeySet:
    """The key set of ids given by their md5 words, shape (rows, 2). Sums 32-bit limbs, so that nothing overflows."""
    limbs = (words >> _SHIFT_32, words & _LOW_32)
    (high_3, high_1), (high_2, high_0) = (
        [int(column) for column in limb.sum(axis=0, dtype=np.uint64)] for limb in limbs
    )
    total = (high_3 << 96) + (high_2 << 64) + (high_1 << 32) + high_0
    return KeySet(count=len(words), md5_sum=total % _MODULUS)


def key_set_of(ids: pa.Array | pa.ChunkedArray) -> KeySet:
    """The key set of an id column."""
    return key_set(md5_words(ids))
