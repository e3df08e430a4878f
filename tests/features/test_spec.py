from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import BundleError, ContractError, DataError
from profile_assets.features.spec import (
    CategoricalFeature,
    FeatureSettings,
    FeatureSpec,
    NumericFeature,
    fit_spec,
    transformed,
)


def settings(*names: str, **options: Any) -> list[FeatureSettings]:
    return [FeatureSettings(name=name, **options) for name in names]


def test_a_fit_reads_means_deviations_and_vocabularies_over_what_is_present() -> None:
    table = pa.table({"n": pa.array([1.0, 3.0, None, float("nan")]), "t": ["b", "a", "b", None]})
    spec = fit_spec(settings("t", "n"), table)
    assert spec.numeric == (NumericFeature(name="n", transform="none", mean=2.0, std=1.0),)
    assert spec.categorical == (CategoricalFeature(name="t", vocabulary=("b", "a")),)
    assert spec.columns == ("n", "t")


def test_the_vocabulary_is_the_most_frequent_first_and_equals_by_text() -> None:
    table = pa.table({"t": ["c", "c", "b", "a", "b", "d"]})
    assert fit_spec(settings("t"), table).categorical[0].vocabulary == ("b", "c", "a", "d")
    assert fit_spec(settings("t", max_vocabulary=3), table).categorical[0].vocabulary == ("b", "c", "a")
    assert fit_spec(settings("t", min_count=2), table).categorical[0].vocabulary == ("b", "c")


def test_the_spec_does_not_depend_on_how_the_rows_are_chunked_or_encoded() -> None:
    values, numbers = ["x", "y", None, "y", "z"], [1.5, None, 2.0, 8.0, -1.0]
    whole = pa.table({"t": pa.array(values).dictionary_encode(), "n": numbers})
    pieces = pa.concat_tables(
        [pa.table({"t": values[:2], "n": numbers[:2]}), pa.table({"t": values[2:], "n": numbers[2:]})]
    )
    assert fit_spec(settings("t", "n"), whole) == fit_spec(settings("t", "n"), pieces)


@pytest.mark.parametrize("values", [[5.0, 5.0], [0.1] * 1000, [None, None], []])
def test_a_constant_or_empty_column_has_deviation_one(values: list[float | None]) -> None:
    feature = fit_spec(settings("n"), pa.table({"n": pa.array(values, pa.float64())})).numeric[0]
    assert feature.std == 1.0


def test_every_unusable_feature_is_told_at_once() -> None:
    table = pa.table([pa.array([1]), pa.array([1]), pa.array([None], pa.date32())], names=["twice", "twice", "when"])
    with pytest.raises(ContractError) as caught:
        fit_spec(settings("gone", "twice", "when", "when"), table)
    for text in ("gone is in the table 0 times", "twice is in the table 2 times", "when holds date32", "named twice"):
        assert text in str(caught.value)


def test_no_feature_at_all_is_refused() -> None:
    with pytest.raises(ContractError, match="no feature is named"):
        fit_spec([], pa.table({"n": [1]}))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e308])
def test_a_training_value_that_no_float_can_hold_is_refused_by_column(value: float) -> None:
    with pytest.raises(DataError, match=r"column n holds 1 values .* infinite or beyond float32"):
        fit_spec(settings("n"), pa.table({"n": [1.0, value]}))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_log1p_keeps_sign_and_order_of_every_number(value: float) -> None:
    less, same, more = transformed(np.array([value - abs(value), value, value + 1.0 + abs(value)]), "log1p")
    assert less <= same <= more
    assert np.sign(same) == np.sign(value)
    assert np.isfinite(same)


def test_json_gives_the_same_spec_and_digest_back(spec: FeatureSpec) -> None:
    again = FeatureSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.digest == spec.digest


def test_the_digest_moves_with_everything_that_moves_a_score(spec: FeatureSpec) -> None:
    other = FeatureSpec(numeric=spec.numeric[::-1], categorical=spec.categorical)
    fewer = FeatureSpec(numeric=spec.numeric, categorical=spec.categorical[:1])
    assert len({spec.digest, other.digest, fewer.digest}) == 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": 2}, "format is 2"),
        ({"numeric": [], "categorical": []}, "names no feature"),
        ({"numeric": [{"name": "n", "transform": "sqrt", "mean": 0, "std": 1}]}, "unknown transform 'sqrt'"),
        ({"numeric": [{"name": "n", "transform": "none", "mean": 0, "std": 0}]}, "deviation 0"),
        ({"numeric": [{"name": "n", "transform": "none", "mean": "nan", "std": 1}]}, "mean nan"),
        ({"numeric": [{"name": "plan", "transform": "none", "mean": 0, "std": 1}]}, "a feature twice"),
        ({"numeric": [{"name": "n"}]}, "KeyError: 'transform'"),
        ({"categorical": [{"name": "c", "vocabulary": ["a", "a"]}]}, "a value twice"),
        ({"categorical": [{"name": "c", "vocabulary": ["a", 1]}]}, "something other than text"),
        ({"categorical": 3}, "TypeError"),
    ],
)
def test_a_spec_that_cannot_be_used_is_refused(spec: FeatureSpec, change: dict[str, Any], text: str) -> None:
    with pytest.raises(BundleError) as caught:
        FeatureSpec.from_json({**spec.to_json(), **change})
    assert text in str(caught.value)
