"""Histograms over bins that training fixed: every row is in exactly one bin of each feature."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import BundleError
from profile_assets.features.bins import MAX_LEVELS, Bins, count_values, fit_bins, quantile_edges
from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSettings, fit_spec

FEATURES = [FeatureSettings(name="age"), FeatureSettings(name="plan")]


def table(ages, plans):
    return pa.table({"age": pa.array(ages, pa.float64()), "plan": pa.array(plans, pa.string())})


@pytest.fixture
def fitted():
    """A spec and its bins, from a thousand rows."""
    draw = np.random.default_rng(1)
    rows = table(
        [None if n % 10 == 0 else float(n) for n in range(1000)], draw.choice(["a", "b", "c"], 1000, p=[0.7, 0.2, 0.1])
    )
    spec = fit_spec(FEATURES, rows)
    return spec, fit_bins(encode(rows, spec), spec, draw.random(1000))


def test_the_training_rows_have_the_shares_of_the_bins(fitted):
    spec, bins = fitted
    assert spec.columns == ("age", "plan")
    assert len(bins.features["age"].shares) == 11  # ten of values, and missing
    assert bins.features["age"].shares[-1] == 0.1
    assert np.allclose(bins.features["age"].shares[:-1], 0.09, atol=0.002)
    unknown, missing, *known, rest = bins.features["plan"].shares
    assert (unknown, missing, rest) == (0, 0, 0)
    assert known == sorted(known, reverse=True)
    assert np.allclose(bins.score.shares, 0.1, atol=0.01)


@given(st.lists(st.tuples(st.none() | st.floats(-1e6, 1e6), st.none() | st.text(max_size=2)), max_size=60))
def test_every_row_falls_into_one_bin_whatever_it_holds(rows):
    spec = fit_spec(FEATURES, table([1.0, 2.0, 2.0, None], ["x", "y", None, "x"]))
    bins = fit_bins(encode(table([1.0, 2.0, 2.0, None], ["x", "y", None, "x"]), spec), spec, np.array([0.1, 0.2]))
    found = bins.count(encode(table([age for age, _ in rows], [plan for _, plan in rows]), spec), spec)
    for name, counts in found.items():
        assert counts.sum() == len(rows)
        assert counts.min(initial=0) >= 0
        assert len(counts) == len(bins.features[name].shares)
    assert found["age"][-1] == sum(age is None for age, _ in rows)
    assert found["plan"][1] == sum(plan is None for _, plan in rows)


def test_values_beyond_training_are_counted_in_the_outer_bins(fitted):
    spec, bins = fitted
    counts = bins.count(encode(table([-1e9, 1e9, None], ["a", "new", None]), spec), spec)
    assert (counts["age"][0], counts["age"][-2], counts["age"][-1]) == (1, 1, 1)
    assert counts["plan"].tolist() == [1, 1, 1, 0, 0, 0]


def test_rare_values_of_a_wide_vocabulary_share_a_bin():
    rows = table([1.0] * 400, [f"city {n % 100}" for n in range(400)])
    spec = fit_spec(FEATURES, rows)
    bins = fit_bins(encode(rows, spec), spec, np.zeros(400))
    assert len(bins.features["plan"].shares) == 2 + MAX_LEVELS + 1
    assert bins.features["plan"].shares[-1] == pytest.approx(0.8)


@pytest.mark.parametrize("values", [[], [3.0], [3.0] * 50])
def test_values_that_are_all_alike_have_one_bin(values):
    edges = quantile_edges(np.array(values, np.float32))
    assert edges == ()
    assert count_values(np.array(values, np.float32), edges).tolist() == [len(values)]


def test_a_value_on_an_edge_belongs_to_the_bin_that_begins_there():
    assert count_values(np.array([0.0, 1.0, 1.5, 2.0, np.nan], np.float32), (1.0, 2.0)).tolist() == [2, 2, 1]


def test_bins_come_back_from_json_as_they_were(fitted):
    _, bins = fitted
    assert Bins.from_json(json.loads(json.dumps(bins.to_json()))) == bins


@pytest.mark.parametrize("change", [{"format": 2}, {"features": 3}, {"score": {"edges": [2, 1], "shares": []}}])
def test_bent_bins_are_an_error(fitted, change):
    _, bins = fitted
    with pytest.raises(BundleError, match="bins"):
        Bins.from_json({**bins.to_json(), **change})
