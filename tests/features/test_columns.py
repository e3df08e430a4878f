from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from profile_assets.features.columns import as_numbers, can_hold, kind_of, text_counts


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(12, 2)]
)
def test_numbers_booleans_and_decimals_are_numeric(kind: pa.DataType) -> None:
    assert kind_of(kind) == "numeric"


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())]
)
def test_text_of_every_layout_is_categorical(kind: pa.DataType) -> None:
    assert kind_of(kind) == "categorical"


@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.timestamp("us"), pa.list_(pa.float32()), pa.binary(), pa.dictionary(pa.int8(), pa.int64())],
)
def test_anything_else_is_neither(kind: pa.DataType) -> None:
    assert kind_of(kind) is None


def test_a_column_of_nulls_feeds_both_kinds() -> None:
    assert can_hold(pa.null(), "numeric")
    assert can_hold(pa.null(), "categorical")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 0], pa.int8()),
        pa.array([1, None, 0], pa.uint64()),
        pa.array([1.0, None, 0.0], pa.float32()),
        pa.array([1.0, float("nan"), 0.0], pa.float64()),
        pa.array([True, None, False]),
        pa.array([Decimal("1.00"), None, Decimal("0.00")], pa.decimal128(12, 2)),
    ],
)
def test_numbers_of_every_type_come_out_with_nan_for_missing(column: pa.Array) -> None:
    np.testing.assert_array_equal(as_numbers(column), [1.0, np.nan, 0.0])


def test_integers_beyond_the_precision_of_floats_are_rounded_not_refused() -> None:
    assert as_numbers(pa.array([2**53 + 1]))[0] == 2.0**53


def test_text_is_counted_over_chunks_and_dictionaries_without_the_missing() -> None:
    plain = pa.chunked_array([["a", "b", None], ["a"]])
    coded = pa.chunked_array([pa.array(["a", None]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()])
    assert text_counts(plain) == {"a": 2, "b": 1}
    assert text_counts(coded) == {"a": 2, "b": 1}
