"""Where a user lies, and how a value is written: others may compute both."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import CorruptError, DataError
from profile_assets.feature_store.buckets import (
    Record,
    bucket_number,
    bucket_numbers,
    decode_rows,
    decode_value,
    encode_values,
    find,
    num_buckets,
)


@given(users=st.lists(st.text(max_size=70), min_size=1, max_size=50), count=st.integers(1, 2**31))
def test_one_id_and_many_lie_in_the_same_buckets(users, count):
    by_hand = [int(hashlib.md5(user.encode()).hexdigest()[16:], 16) % count for user in users]
    assert [bucket_number(user.encode(), count) for user in users] == by_hand
    assert bucket_numbers(pa.array(users, pa.string()), count).tolist() == by_hand


def test_a_value_is_a_little_endian_float_and_a_route():
    value = encode_values(pa.chunked_array([pa.array([0.5], pa.float32())]), pa.chunked_array([["full"]])).tobytes()
    assert value == bytes([0, 0, 0, 0x3F, 0])
    assert decode_value(value) == Record(score=0.5, route="full")


def test_there_are_about_64_users_in_a_bucket():
    assert [num_buckets(rows) for rows in (0, 1, 64, 65, 6400)] == [1, 1, 1, 2, 100]


def test_a_route_without_a_place_is_refused():
    with pytest.raises(DataError, match="none of full"):
        encode_values(pa.chunked_array([pa.array([0.5], pa.float32())]), pa.chunked_array([["guessed"]]))


@pytest.mark.parametrize("value", [b"", b"1234", b"123456", bytes([0, 0, 0, 0x3F, 9])])
def test_bytes_that_are_no_value_are_named(value):
    with pytest.raises(CorruptError):
        decode_value(value)
    with pytest.raises(CorruptError):
        decode_rows(pa.array(["a"]), value)


@given(users=st.lists(st.text(alphabet="ab", max_size=4), max_size=64, unique=True), asked=st.text("ab", max_size=4))
def test_an_id_inside_another_one_or_across_two_is_not_taken_for_it(users, asked):
    lengths = np.array([len(user) for user in users], "<u4").tobytes()
    values = b"".join(struct.pack("<fB", place, 0) for place in range(len(users)))
    found = find(lengths, "".join(users).encode(), values, user=asked.encode())
    assert found == (Record(score=users.index(asked), route="full") if asked in users else None)


def test_no_rows_are_no_values():
    assert decode_rows(pa.array([], pa.string()), b"").num_rows == 0
