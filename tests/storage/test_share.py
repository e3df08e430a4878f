"""A stable share of the users: the same ones every day, of the size asked for, and whatever their shard."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.shards.hashing import shard_numbers
from profile_assets.storage.md5 import md5_words
from profile_assets.storage.share import in_share

MANY = pa.array([f"{number:06d}" for number in range(40_000)])


def test_it_is_of_the_size_asked_for_in_every_shard():
    is_in = in_share(MANY, 0.05, "canary")
    shards = shard_numbers(md5_words(MANY), 8)
    shares = [is_in[shards == number].mean() for number in range(8)]
    assert abs(is_in.mean() - 0.05) < 0.005
    assert all(abs(share - 0.05) < 0.015 for share in shares), shares


def test_another_salt_is_another_share():
    both = in_share(MANY, 0.1, "canary") & in_share(MANY, 0.1, "shadow")
    assert abs(both.mean() - 0.01) < 0.003


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_holds_a_smaller_one_and_the_whole_holds_all(ids: list[str], one: float, other: float):
    array, (small, large) = pa.array(ids, pa.string()), sorted((one, other))
    assert not (in_share(array, small, "s") & ~in_share(array, large, "s")).any()
    assert in_share(array, 1.0, "s").all()
    assert not in_share(array, 0.0, "s").any()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), st.floats(0, 1))
def test_anybody_can_work_it_out_with_an_md5(user: str, share: float):
    hashed = int(hashlib.md5(f"salt:{user}".encode()).hexdigest(), 16) >> 75  # the first 53 of its bits
    assert in_share(pa.array([user]), share, "salt").tolist() == [hashed < round(share * 2**53)]


def test_it_is_the_same_whatever_the_order_and_however_the_column_is_cut():
    whole = in_share(MANY, 0.3, "s")
    cut = pa.chunked_array([MANY.slice(0, 7), MANY.slice(7, 0), MANY.slice(7)])
    assert (in_share(cut, 0.3, "s") == whole).all()
    assert (in_share(MANY.take(pa.array(np.arange(len(MANY))[::-1])), 0.3, "s") == whole[::-1]).all()
    assert in_share(MANY.slice(0, 5).dictionary_encode(), 0.3, "s").tolist() == whole[:5].tolist()
