"""The shard of a user can be worked out by anyone, from the id alone."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from profile_assets.errors import PermanentError
from profile_assets.shards.hashing import MAX_SHARDS, shard_numbers
from profile_assets.storage.keys import md5_words


@settings(deadline=None)
@given(
    ids=st.lists(st.text(alphabet="abc019-é", max_size=40), min_size=1, max_size=10), count=st.integers(1, MAX_SHARDS)
)
@example(ids=["007"], count=MAX_SHARDS)
@example(ids=["007"], count=1)
def test_a_shard_is_the_md5_number_modulo_n(ids: list[str], count: int) -> None:
    wanted = [int(hashlib.md5(one.encode(), usedforsecurity=False).hexdigest(), 16) % count for one in ids]
    assert shard_numbers(md5_words(pa.array(ids)), count).tolist() == wanted


@settings(deadline=None)
@given(high=st.integers(0, 2**64 - 1), low=st.integers(0, 2**64 - 1), count=st.integers(1, MAX_SHARDS))
@example(high=2**64 - 1, low=2**64 - 1, count=MAX_SHARDS)
@example(high=2**64 - 1, low=2**64 - 1, count=MAX_SHARDS - 1)
@example(high=1, low=0, count=2**30)
def test_no_hash_overflows(high: int, low: int, count: int) -> None:
    words = np.array([[high, low]], dtype=np.uint64)
    assert shard_numbers(words, count).tolist() == [((high << 64) | low) % count]


def test_the_numbers_are_signed_integers_and_there_may_be_none() -> None:
    numbers = shard_numbers(np.empty((0, 2), np.uint64), 16)
    assert numbers.shape == (0,)
    assert numbers.dtype == np.int64


@pytest.mark.parametrize("count", [0, -1, MAX_SHARDS + 1])
def test_a_number_of_shards_that_makes_no_sense_is_refused(count: int) -> None:
    with pytest.raises(PermanentError, match=f"{count} shards"):
        shard_numbers(np.zeros((1, 2), np.uint64), count)
