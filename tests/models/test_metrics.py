from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.models.metrics import RESAMPLES, auc, bootstrap_differences, log_loss


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=30))
def test_the_auc_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[int, bool]]) -> None:
    logits, labels = np.array([row[0] for row in rows], np.float32), np.array([float(row[1]) for row in rows])
    wins = [
        (one > other) + 0.5 * (one == other)
        for one, other in ((a, b) for a, is_a in rows if is_a for b, is_b in rows if not is_b)
    ]
    found = auc(logits, labels)
    assert found is None if not wins else found == pytest.approx(float(np.mean(wins)))


def test_log_loss_is_exact_where_probabilities_would_round_to_one() -> None:
    assert log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(np.log(2))
    assert log_loss(np.array([200.0, -200.0]), np.array([0.0, 0.0])) == pytest.approx(100.0)


def test_a_model_against_itself_differs_by_exactly_nothing() -> None:
    draw = np.random.default_rng(0)
    logits, labels = draw.normal(size=500), (draw.random(500) < 0.2).astype(float)
    by_auc, by_loss = bootstrap_differences(logits, logits, labels, seed=1)
    assert by_auc is not None
    assert (by_auc.low, by_auc.high, by_loss.low, by_loss.high) == (0, 0, 0, 0)


def test_the_interval_covers_the_difference_and_a_clear_gain_excludes_zero() -> None:
    draw = np.random.default_rng(0)
    truth = draw.normal(size=3000)
    labels = (draw.random(3000) < 1 / (1 + np.exp(-truth))).astype(float)
    noise = draw.normal(size=3000)
    by_auc, by_loss = bootstrap_differences(truth, noise, labels, seed=1)
    gained = (auc(truth, labels) or 0) - (auc(noise, labels) or 0)
    assert by_auc is not None
    assert 0 < by_auc.low < gained < by_auc.high
    assert by_loss.low < log_loss(truth, labels) - log_loss(noise, labels) < by_loss.high < 0


def test_blocks_of_resamples_change_nothing_but_memory() -> None:
    draw = np.random.default_rng(0)
    logits, other, labels = draw.normal(size=100), draw.normal(size=100), (draw.random(100) < 0.5).astype(float)
    at_once = bootstrap_differences(logits, other, labels, seed=1)
    assert RESAMPLES % 7 != 0
    in_blocks = bootstrap_differences(logits, other, labels, seed=1, max_cells=700)
    assert (at_once[0], at_once[1].low, at_once[1].high) == (
        in_blocks[0],
        pytest.approx(in_blocks[1].low),
        pytest.approx(in_blocks[1].high),
    )


def test_without_a_class_there_is_no_auc_but_a_loss() -> None:
    logits, labels = np.array([1.0, 2.0]), np.zeros(2)
    by_auc, by_loss = bootstrap_differences(logits, -logits, labels, seed=1)
    assert auc(logits, labels) is None
    assert by_auc is None
    assert by_loss.low > 0
