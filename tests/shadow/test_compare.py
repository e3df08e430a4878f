"""The figures of two scores beside each other, held against other ways to work them out."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from profile_assets.shadow.compare import MAX_SEGMENTS, by_segment, compare, rank_correlation, top_overlap

SCORES = arrays(np.float32, st.integers(2, 60), elements=st.floats(0, 1, width=16))


@given(SCORES, st.integers(0, 2**32 - 1))
def test_the_rank_correlation_is_that_of_ranks_counted_one_by_one(one: np.ndarray, seed: int):
    other = np.round(np.random.default_rng(seed).random(len(one)), 1).astype(np.float32)

    def ranks(values: np.ndarray) -> np.ndarray:
        return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])

    found = rank_correlation(one, other)
    if len(np.unique(one)) == 1 or len(np.unique(other)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(np.corrcoef(ranks(one), ranks(other))[0, 1], abs=1e-9)


@given(SCORES)
def test_a_score_beside_itself_differs_in_nothing(scores: np.ndarray):
    found = compare(scores, scores, differs_by=0.05)
    assert (found["psi"], found["disagreeing"], found["largest_difference"]) == (0.0, 0, 0.0)
    assert set(found["overlaps"].values()) == {1.0}
    assert found["rank_correlation"] in (None, pytest.approx(1.0))
    assert sum(found["published_counts"]) == sum(found["difference_counts"]) == len(scores)


def test_a_score_beside_its_opposite_has_another_top_and_order():
    scores = np.linspace(0, 1, 1000, dtype=np.float32)
    found = compare(scores, scores[::-1], differs_by=0.5)
    assert found["rank_correlation"] == pytest.approx(-1.0)
    assert found["overlaps"] == {"0.01": 0.0, "0.05": 0.0, "0.1": 0.0}
    assert found["disagreeing"] == 500
    assert found["psi"] == pytest.approx(0.0, abs=1e-3)
    assert found["mean_difference"] == pytest.approx(0.5, abs=1e-2)


def test_nobody_makes_no_figures_and_they_are_json_all_the_same():
    found = compare(np.empty(0, np.float32), np.empty(0, np.float32), differs_by=0.05)
    assert found["rows"] == 0
    assert found["psi"] is found["rank_correlation"] is found["shadow_mean"] is None
    json.dumps(found, allow_nan=False)


def test_the_top_is_one_user_at_least():
    assert top_overlap(np.array([0.1, 0.9]), np.array([0.2, 0.8]), 0.01) == 1.0
    assert top_overlap(np.array([0.1, 0.9]), np.array([0.8, 0.2]), 0.01) == 0.0


def test_segments_are_told_largest_first_missing_ones_too():
    segments = pa.chunked_array([["a", "b", None], ["a", "a"]])
    published = np.array([0.1, 0.5, 0.2, 0.3, 0.5], np.float32)
    shadow = np.array([0.1, 0.9, 0.2, 0.6, 0.5], np.float32)
    found = by_segment(segments, published, shadow, differs_by=0.05)
    assert [(row["segment"], row["rows"]) for row in found] == [("a", 3), ("b", 1), ("—", 1)]
    assert found[0]["published_mean"] == pytest.approx(0.3)
    assert found[0]["shadow_mean"] == pytest.approx(0.4)
    assert found[0]["disagreeing_share"] == pytest.approx(1 / 3)
    assert found[1]["mean_difference"] == pytest.approx(0.4)


def test_many_segments_are_told_together_at_the_end():
    names = [f"city {number:02d}" for number in range(40)]
    scores = np.full(40, 0.5, np.float32)
    found = by_segment(pa.chunked_array([names]), scores, scores, differs_by=0.05)
    assert len(found) == MAX_SEGMENTS + 1
    assert (found[-1]["segment"], found[-1]["rows"]) == ("all others", 20)
