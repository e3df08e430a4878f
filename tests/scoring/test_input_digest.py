"""The digest of what the network sees: of every bit of it, and of nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.features.encode import CACHED_ROWS, Encoded, encode
from profile_assets.features.spec import CategoricalFeature, FeatureSpec, NumericFeature
from profile_assets.scoring.input_digest import input_digests


def drawn(rows: int, numbers: int, categories: int, seed: int = 1) -> Encoded:
    draw = np.random.default_rng(seed)
    return Encoded(
        numeric=draw.standard_normal((2 * numbers, rows), dtype=np.float32),
        categories=draw.integers(0, 1000, (categories, rows), dtype=np.int32),
        unknown={},
    )


@given(numbers=st.integers(0, 5), categories=st.integers(0, 5), data=st.data())
def test_any_single_bit_of_a_row_changes_its_digest_and_no_other(numbers: int, categories: int, data: st.DataObject):
    rows = 7
    encoded = drawn(rows, numbers, categories)
    before = input_digests(encoded)
    lines = [*encoded.numeric.view(np.uint32), *encoded.categories.view(np.uint32)]
    if not lines:
        assert len(set(before.tolist())) == 1
        return
    line, row, bit = (data.draw(st.integers(0, most)) for most in (len(lines) - 1, rows - 1, 31))
    lines[line][row] ^= np.uint32(1 << bit)
    assert np.flatnonzero(input_digests(encoded) != before).tolist() == [row]


@given(order=st.permutations(range(40)))
def test_a_digest_depends_on_its_row_alone(order: list[int]):
    encoded = drawn(40, 3, 2)
    moved = Encoded(numeric=encoded.numeric[:, order], categories=encoded.categories[:, order], unknown={})
    assert input_digests(moved).tolist() == input_digests(encoded)[order].tolist()


@pytest.mark.parametrize("rows", [0, 1, CACHED_ROWS - 1, CACHED_ROWS, CACHED_ROWS + 1])
def test_rows_that_differ_have_digests_that_differ_however_many_there_are(rows: int):
    digests = input_digests(drawn(rows, 3, 3))
    assert digests.dtype == np.uint64
    assert len(set(digests.tolist())) == rows


def test_values_that_swap_places_are_another_input():
    one = drawn(1, 2, 2)
    for lines in (one.numeric, one.categories):
        swapped = lines.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        other = Encoded(
            numeric=swapped if lines is one.numeric else one.numeric,
            categories=swapped if lines is one.categories else one.categories,
            unknown={},
        )
        assert input_digests(other)[0] != input_digests(one)[0]


@given(
    numbers=st.lists(
        st.none() | st.floats(-1e30, 1e30) | st.sampled_from([0.0, -0.0, float("nan"), 1e-320]), min_size=1
    )
)
def test_what_is_encoded_never_holds_a_number_that_is_none(numbers: list[float | None]):
    spec = FeatureSpec(
        numeric=(NumericFeature(name="n", transform="none", mean=0.0, std=1.0),),
        categorical=(CategoricalFeature(name="c", vocabulary=("a",)),),
    )
    table = pa.table({"n": pa.array(numbers, pa.float64()), "c": pa.array(["a"] * len(numbers))})
    encoded = encode(table, spec)
    assert np.isfinite(encoded.numeric).all()
    missing = [row for row, number in enumerate(numbers) if number is None or number != number]
    assert len(set(input_digests(encoded)[missing].tolist())) <= 1, "null and NaN are one input"
