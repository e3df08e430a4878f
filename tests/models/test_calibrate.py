from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import BundleError, DataError
from profile_assets.models.calibrate import Calibration, fit_calibration
from profile_assets.models.metrics import calibration_error, log_loss, reliability


def drawn(scale: float, shift: float, rows: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels that come true by `scale * logit + shift`."""
    draw = np.random.default_rng(5)
    logits = draw.normal(-1, 1.5, rows)
    return logits, (draw.random(rows) < 1 / (1 + np.exp(-(scale * logits + shift)))).astype(float)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.5, 0.7), (2.5, -1.0), (1.0, -3.0)])
def test_the_scale_and_shift_that_labels_follow_are_found(scale: float, shift: float) -> None:
    logits, labels = drawn(scale, shift)
    found = fit_calibration(logits, labels)
    assert found.scale == pytest.approx(scale, rel=0.1)
    assert found.shift == pytest.approx(shift, abs=0.15)
    before, after = (calibration_error(reliability(one, labels)) for one in (logits, found.apply(logits)))
    assert after <= min(before, 0.01) + 1e-3
    assert log_loss(found.apply(logits), labels) <= log_loss(logits, labels) + 1e-6


def test_rows_that_are_told_apart_perfectly_give_finite_numbers() -> None:
    logits = np.array([-3.0, -2.0, 2.0, 3.0])
    found = fit_calibration(logits, np.array([0.0, 0.0, 1.0, 1.0]))
    assert np.isfinite([found.scale, found.shift]).all()


def test_scores_that_rank_backwards_are_refused() -> None:
    logits, labels = drawn(-1.0, 0.0)
    with pytest.raises(DataError, match="opposite ways"):
        fit_calibration(logits, labels)


def test_equal_scores_can_only_be_shifted() -> None:
    logits, labels = np.full(1000, 2.0), (np.arange(1000) < 100).astype(float)
    found = fit_calibration(logits, labels)
    assert found.scale == 1.0
    assert 1 / (1 + np.exp(-found.apply(logits)[0])) == pytest.approx(0.1, abs=0.01)


def test_one_on_top_of_another_is_both() -> None:
    one, other = Calibration(scale=2.0, shift=1.0), Calibration(scale=0.5, shift=-3.0)
    logits = np.array([-1.0, 0.0, 4.0])
    np.testing.assert_allclose(other.after(one).apply(logits), other.apply(one.apply(logits)))
    assert Calibration.from_json(one.to_json()) == one


@pytest.mark.parametrize("value", [{}, None, {"scale": 0, "shift": 0}, {"scale": "nan", "shift": 0}, {"scale": 1}])
def test_what_is_no_calibration_is_refused(value: object) -> None:
    with pytest.raises(BundleError, match="is no calibration"):
        Calibration.from_json(value)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.floats(-8, 8), st.booleans()), min_size=1, max_size=200))
def test_a_reliability_curve_holds_every_row_once_by_rising_score(rows: list[tuple[float, bool]]) -> None:
    logits, labels = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    curve = reliability(logits, labels)
    assert sum(one.rows for one in curve) == len(rows)
    assert [one.mean_score for one in curve] == sorted(one.mean_score for one in curve)
    assert sum(one.rows * one.rate for one in curve) == pytest.approx(labels.sum())
    assert 0 <= calibration_error(curve) <= 1


def test_the_error_of_scores_that_are_all_ten_points_too_high() -> None:
    labels = (np.arange(10_000) % 5 == 0).astype(float)
    logits = np.full(10_000, np.log(0.3 / 0.7))
    assert calibration_error(reliability(logits, labels)) == pytest.approx(0.1)
