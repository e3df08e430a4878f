"""Drift as a size of effect: no number of rows makes a trifle big, and few rows make no drift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.quality.chance import widened_change, widened_rate, widened_skew
from profile_assets.quality.drift import FLOOR, psi

COUNTS = st.lists(st.integers(0, 10**9), min_size=2, max_size=12)


def test_it_is_the_sum_that_textbooks_give():
    assert psi([50, 50], [0.9, 0.1]) == pytest.approx(0.4 * math.log(5) - 0.4 * math.log(5 / 9))


@given(COUNTS.filter(any))
def test_the_same_shares_have_not_moved_however_many_rows(counts):
    assert psi(counts, [10.0 * count for count in counts]) == pytest.approx(0, abs=1e-12)


@given(st.tuples(COUNTS.filter(any), COUNTS.filter(any)).map(lambda two: [one[: min(map(len, two))] for one in two]))
def test_it_is_never_negative_nor_infinite(two):
    found = psi(*two)
    assert math.isnan(found) or 0 <= found < 2 * abs(math.log(FLOOR))


@pytest.mark.parametrize(("found", "before"), [([], []), ([0, 0], [1, 1]), ([1, 1], [0, 0]), ([1, 1], [1, 1, 1])])
def test_nothing_to_compare_is_no_number(found, before):
    assert math.isnan(psi(found, before))


def test_a_bin_that_training_never_filled_is_floored():
    assert psi([999, 1], [1.0, 0.0]) < 0.01


def test_ten_million_rows_do_not_make_a_trifle_big():
    """A test of significance would call this a difference; its size is nothing."""
    before = np.full(10, 1_000_000)
    after = before + np.array([4000, -4000] * 5)
    assert ((after - before) ** 2 / before).sum() > 27.9  # chi squared with 9 degrees, p < 0.001
    assert psi(after, before) < 1e-4


def test_limits_are_wide_among_few_rows_and_themselves_among_many():
    assert widened_rate(0.1, 8, 3) > 0.5
    assert widened_rate(0.1, 10_000_000, 3) == pytest.approx(0.1, abs=3e-4)
    assert widened_change(0.1, (0.5, 0.5), (8, 8)) > 0.8
    assert widened_change(0.1, (0.5, 0.5), (10**7, 10**7)) == pytest.approx(0.1, abs=1e-3)
    assert widened_skew(1.5, 8, 16) > 8
    assert widened_skew(1.5, 10**7, 16) == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize("rows", [1, 8, 10**7])
def test_a_limit_of_zero_is_a_limit_and_is_not_widened(rows):
    assert widened_rate(0.0, rows, 5) == 0
    assert widened_change(0.0, (0.5, 0.5), (rows, rows)) == 0
    assert widened_skew(0.0, rows, 16) == 0


@given(st.floats(0, 1), st.integers(1, 10**7), st.floats(0.1, 6))
def test_a_widened_rate_is_a_rate_and_never_below_its_limit(limit, rows, deviations):
    assert limit <= widened_rate(limit, rows, deviations) + 1e-12
    assert widened_rate(limit, rows, deviations) <= 1 + 1e-12
