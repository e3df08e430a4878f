from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import ContractError, DataError
from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import CategoricalFeature, FeatureSpec, NumericFeature


def assert_same(one: Encoded, other: Encoded) -> None:
    np.testing.assert_array_equal(one.numeric, other.numeric)
    np.testing.assert_array_equal(one.categories, other.categories)
    assert one.unknown == other.unknown


def with_column(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def test_values_are_standardised_and_missing_is_the_mean_beside_an_indicator(
    users: pa.Table, spec: FeatureSpec
) -> None:
    encoded = encode(users, spec)
    np.testing.assert_array_equal(encoded.numeric[0], [0.0, 2.0, 0.0, 0.0])
    np.testing.assert_array_equal(encoded.numeric[2], [0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(encoded.numeric[1, :3], [(math.log1p(x) - 3) / 2 for x in (0, 100, 7)], rtol=1e-6)
    np.testing.assert_array_equal(encoded.numeric[3], [0.0, 0.0, 0.0, 1.0])


def test_slots_are_unknown_missing_then_the_vocabulary(users: pa.Table, spec: FeatureSpec) -> None:
    encoded = encode(users, spec)
    np.testing.assert_array_equal(encoded.categories, [[2, 3, 0, 1], [3, 2, 4, 0]])
    assert encoded.unknown == {"plan": 1, "city": 1}


def test_arrays_have_the_types_and_layout_that_the_network_takes(users: pa.Table, spec: FeatureSpec) -> None:
    encoded = encode(users, spec)
    assert (encoded.numeric.dtype, encoded.numeric.shape) == (np.float32, (4, 4))
    assert (encoded.categories.dtype, encoded.categories.shape) == (np.int32, (2, 4))
    assert encoded.numeric.flags.c_contiguous
    assert encoded.categories.flags.c_contiguous
    assert encoded.rows == 4


def test_the_order_of_columns_and_columns_beside_them_change_nothing(users: pa.Table, spec: FeatureSpec) -> None:
    shuffled = users.select(["city", "spend", "user_id", "plan", "age"]).append_column("new", pa.array([1, 2, 3, 4]))
    assert_same(encode(shuffled, spec), encode(users, spec))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_text_means_the_same_however_it_is_laid_out(users: pa.Table, spec: FeatureSpec, kind: pa.DataType) -> None:
    column = users["plan"].cast(kind) if kind != pa.string_view() else pa.array(users["plan"].to_pylist(), kind)
    assert_same(encode(with_column(users, "plan", column), spec), encode(users, spec))


def test_a_null_within_the_dictionary_itself_is_missing(users: pa.Table, spec: FeatureSpec) -> None:
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), pa.array(["free", "paid", "gold", None])
    )
    assert_same(encode(with_column(users, "plan", values), spec), encode(users, spec))


def test_chunks_with_dictionaries_of_their_own_are_each_looked_up(users: pa.Table, spec: FeatureSpec) -> None:
    chunks = [pa.array(["free"]), pa.array(["paid", "gold"]), pa.array([], pa.string()), pa.array([None], pa.string())]
    coded = pa.chunked_array([chunk.dictionary_encode() for chunk in chunks])
    assert_same(encode(with_column(users, "plan", coded), spec), encode(users, spec))


def test_a_sliced_batch_is_encoded_from_its_own_rows(users: pa.Table, spec: FeatureSpec) -> None:
    part = encode(users.slice(1, 2).to_batches()[0], spec)
    whole = encode(users, spec)
    np.testing.assert_array_equal(part.numeric, whole.numeric[:, 1:3])
    np.testing.assert_array_equal(part.categories, whole.categories[:, 1:3])


def test_a_column_that_is_null_throughout_is_missing_throughout(users: pa.Table, spec: FeatureSpec) -> None:
    nulls = pa.nulls(users.num_rows)
    encoded = encode(with_column(with_column(users, "plan", nulls), "age", nulls), spec)
    assert (encoded.categories[0] == 1).all()
    assert (encoded.numeric[2] == 1).all()
    assert (encoded.numeric[0] == 0).all()


def test_no_rows_are_no_columns(users: pa.Table, spec: FeatureSpec) -> None:
    assert encode(users.slice(0, 0), spec).rows == 0


def test_every_column_that_does_not_fit_is_told_at_once(users: pa.Table, spec: FeatureSpec) -> None:
    bent = with_column(users.drop_columns(["age"]), "spend", pa.array(["1", "2", "3", "4"]))
    bent = with_column(bent, "plan", pa.array([1, 2, 3, 4])).append_column("city", users["city"])
    with pytest.raises(ContractError) as caught:
        encode(bent, spec)
    for text in (
        "column age is missing",
        "column spend holds string, the model takes numbers",
        "column plan holds int64, the model takes text",
        "column city is there 2 times",
    ):
        assert text in str(caught.value)


def test_columns_are_found_by_exact_case(users: pa.Table, spec: FeatureSpec) -> None:
    with pytest.raises(ContractError, match="column age is missing"):
        encode(users.rename_columns(["user_id", "Age", "spend", "plan", "city"]), spec)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300])
def test_a_value_that_no_float_can_hold_names_column_and_user(users: pa.Table, spec: FeatureSpec, value: float) -> None:
    bent = with_column(users, "age", pa.chunked_array([[1.0, None], [value, 2.0]]))
    with pytest.raises(DataError, match=r"column age holds .* for user '3'"):
        encode(bent, spec)
    with pytest.raises(DataError, match=r"row 2 of the batch"):
        encode(bent.drop_columns(["user_id"]), spec)


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.floats(width=32, allow_infinity=False),
            st.none() | st.integers(-(2**62), 2**62),
            st.none() | st.sampled_from(["free", "paid", "other", ""]),
        ),
        max_size=40,
    ),
    cut=st.integers(0, 40),
)
def test_whole_columns_are_encoded_as_each_row_would_be(
    rows: list[tuple[float | None, int | None, str | None]], cut: int
) -> None:
    age = NumericFeature(name="age", transform="none", mean=1.5, std=2.0)
    spend = NumericFeature(name="spend", transform="log1p", mean=3.0, std=2.0)
    plan = CategoricalFeature(name="plan", vocabulary=("free", "paid"))
    spec = FeatureSpec(numeric=(age, spend), categorical=(plan,))
    kinds = {"age": pa.float32(), "spend": pa.int64(), "plan": pa.string()}
    columns = {name: [row[place] for row in rows] for place, name in enumerate(kinds)}
    parts = [slice(0, cut), slice(cut, None)]
    table = pa.table(
        {name: pa.chunked_array([pa.array(columns[name][part], kinds[name]) for part in parts]) for name in kinds}
    )
    encoded = encode(table, spec)
    for row, (years, amount, choice) in enumerate(rows):
        assert encoded.numeric[0, row] == (0 if is_missing(years) else np.float32((float(years or 0) - 1.5) / 2.0))
        assert bool(encoded.numeric[2, row]) == is_missing(years)
        log = math.copysign(math.log1p(abs(float(amount or 0))), float(amount or 0))
        assert encoded.numeric[1, row] == pytest.approx(0 if amount is None else (log - 3.0) / 2.0, rel=1e-5, abs=1e-6)
        assert encoded.categories[0, row] == {None: 1, "free": 2, "paid": 3}.get(choice, 0)


def is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value)
