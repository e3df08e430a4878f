"""Users found among those of an earlier day: by id, whatever became of the order and of the number of files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.scoring.match import NOWHERE, PIECE_ROWS, places_among, shards_with
from profile_assets.shards.hashing import shard_numbers
from profile_assets.storage.keys import md5_words


def expected(today: list[str], earlier: list[str]) -> list[int]:
    known = {user: place for place, user in enumerate(earlier)}
    return [known.get(user, NOWHERE) for user in today]


def found(today: list[str], earlier: list[str]) -> list[int]:
    return places_among(pa.array(today, pa.string()), pa.array(earlier, pa.string())).tolist()


@given(
    today=st.lists(st.sampled_from([f"u{n}" for n in range(60)]), unique=True),
    earlier=st.lists(st.sampled_from([f"u{n}" for n in range(60)]), unique=True),
)
def test_each_user_is_found_where_it_stands(today: list[str], earlier: list[str]):
    assert found(today, earlier) == expected(today, earlier)


def users(count: int) -> list[str]:
    return [f"user {number}" for number in range(count)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda before, _: before, id="none"),
        pytest.param(lambda before, _: before[1:], id="the first has gone"),
        pytest.param(lambda before, _: ["new", *before], id="a new one comes first"),
        pytest.param(lambda before, _: [*before, *(f"new {n}" for n in range(3000))], id="many new ones come last"),
        pytest.param(lambda before, _: before[:1000] + before[4000:], id="thousands have gone"),
        pytest.param(lambda before, _: [u for n, u in enumerate(before) if n % 37], id="here and there one has gone"),
        pytest.param(lambda before, draw: draw.permutation(before).tolist(), id="another order"),
        pytest.param(lambda before, _: before[::-1], id="backwards"),
        pytest.param(lambda _before, _: [], id="all have gone"),
    ],
)
def test_thousands_of_users_are_found(change):
    before = users(5 * PIECE_ROWS + 77)
    today = change(before, np.random.default_rng(3))
    assert found(today, before) == expected(today, before)


@given(count=st.integers(1, 12), other=st.integers(1, 12), numbers=st.lists(st.integers(0, 10_000), max_size=50))
def test_the_shards_named_are_those_in_which_a_user_can_be(count: int, other: int, numbers: list[int]):
    words = md5_words(pa.array([str(number) for number in numbers], pa.string()))
    for here, there in zip(shard_numbers(words, count), shard_numbers(words, other), strict=True):
        assert there in shards_with(int(here), count, other)


def test_as_many_shards_are_the_same_shards():
    assert shards_with(3, 16, 16) == [3]
    assert shards_with(3, 16, 8) == [3]
    assert shards_with(3, 8, 16) == [3, 11]
    assert shards_with(1, 2, 3) == [0, 1, 2]
