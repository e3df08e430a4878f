"""Exact md5 of whole columns, and the sum over it that no accident keeps."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_assets.errors import DataError
from profile_assets.storage.keys import KeySet, key_set, key_set_of, md5_words
from profile_assets.storage.md5 import LANES, MAX_BLOCK_BYTES

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80)
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


def numbers(ids: pa.Array | pa.ChunkedArray) -> list[int]:
    return [(int(high) << 64) | int(low) for high, low in md5_words(ids)]


def by_hashlib(ids: list[str]) -> list[int]:
    return [int(hashlib.md5(one.encode(), usedforsecurity=False).hexdigest(), 16) for one in ids]


@settings(deadline=None)
@given(ids=st.lists(TEXT, max_size=30))
def test_words_are_those_of_hashlib_for_any_text(ids: list[str]) -> None:
    assert numbers(pa.array(ids, pa.string())) == by_hashlib(ids)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_text_may_come_in_any_layout(kind: pa.DataType) -> None:
    ids = ["", "007", "é" * 27, "é" * 28, "x" * 300, "\x00", "007"]
    assert numbers(pa.array(ids, pa.string()).cast(kind)) == by_hashlib(ids)


@pytest.mark.parametrize(
    "length", [0, 1, 3, 4, MAX_BLOCK_BYTES - 1, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + 1, 64, 119, 120]
)
def test_every_length_around_a_block_is_exact(length: int) -> None:
    ids = ["a" * length, "b" * length]
    assert numbers(pa.array(ids)) == by_hashlib(ids)


def test_short_and_long_ids_stand_side_by_side() -> None:
    ids = ["x" * (place % 70) for place in range(LANES + 500)]
    assert numbers(pa.array(ids)) == by_hashlib(ids)


@settings(deadline=None)
@given(ids=st.lists(TEXT, min_size=4, max_size=20), cut=st.integers(0, 4))
def test_slices_and_chunks_are_read_from_where_they_start(ids: list[str], cut: int) -> None:
    whole = pa.array(ids, pa.string())
    assert numbers(whole.slice(cut)) == by_hashlib(ids[cut:])
    assert numbers(pa.chunked_array([whole.slice(0, cut), whole.slice(cut)])) == by_hashlib(ids)


def test_no_ids_give_no_words() -> None:
    assert md5_words(pa.array([], pa.string())).shape == (0, 2)
    assert md5_words(pa.chunked_array([], pa.string())).shape == (0, 2)


def test_a_null_id_is_refused() -> None:
    with pytest.raises(DataError, match="1 ids are null"):
        md5_words(pa.array(["a", None]))


@settings(deadline=None)
@given(words=st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=20))
def test_the_sum_of_words_is_taken_modulo_2_to_the_128(words: list[tuple[int, int]]) -> None:
    total = sum((high << 64) + low for high, low in words) % 2**128
    assert key_set(np.array(words, dtype=np.uint64).reshape(-1, 2)) == KeySet(count=len(words), md5_sum=total)


@settings(deadline=None)
@given(first=st.lists(TEXT, max_size=10), second=st.lists(TEXT, max_size=10))
def test_key_sets_add_up_in_any_order(first: list[str], second: list[str]) -> None:
    parts = [key_set_of(pa.array(ids, pa.string())) for ids in (second, first)]
    assert KeySet.total(parts) == key_set_of(pa.array(first + second, pa.string()))


def test_a_doubled_pair_does_not_pass_for_another() -> None:
    doubled = [key_set_of(pa.array(ids)) for ids in (["e", "e"], ["f", "f"])]
    assert doubled[0] != doubled[1]


def test_a_lost_and_a_doubled_user_do_not_cancel() -> None:
    assert key_set_of(pa.array(["a", "b", "c"])) != key_set_of(pa.array(["a", "b", "b"]))


def test_a_key_set_survives_json() -> None:
    keys = key_set_of(pa.array(["a", "b"]))
    assert KeySet.from_json(keys.to_json()) == keys
