"""Builders of small specs and tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from profile_assets.features.spec import CategoricalFeature, FeatureSpec, NumericFeature


@pytest.fixture
def spec() -> FeatureSpec:
    return FeatureSpec(
        numeric=(
            NumericFeature(name="age", transform="none", mean=40.0, std=10.0),
            NumericFeature(name="spend", transform="log1p", mean=3.0, std=2.0),
        ),
        categorical=(
            CategoricalFeature(name="plan", vocabulary=("free", "paid")),
            CategoricalFeature(name="city", vocabulary=("Oslo", "Bern", "Łódź")),
        ),
    )


@pytest.fixture
def users() -> pa.Table:
    return pa.table(
        {
            "user_id": ["1", "2", "3", "4"],
            "age": pa.array([40.0, 60.0, None, float("nan")]),
            "spend": pa.array([0, 100, 7, None], pa.int64()),
            "plan": ["free", "paid", "gold", None],
            "city": ["Bern", "Oslo", "Łódź", ""],
        }
    )
