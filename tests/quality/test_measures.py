"""Measures: every row counts, however the batches are cut and whatever Arrow type holds them."""

from __future__ import annotations

import decimal
import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import CorruptError, DataError
from profile_assets.quality.measures import SCHEMA, ColumnMeasure, column_measures, measure, measure_files
from profile_assets.quality.uniqueness import IdHashes
from profile_assets.storage.parquet import ParquetSink

NAN, INF = math.nan, math.inf


def measured(values, kind=None):
    """The measure of one column, in one batch."""
    array = values if isinstance(values, pa.Array) else pa.array(values, type=kind)
    return column_measures(measure([pa.record_batch([array], names=["x"])], ["x"]))["x"]


def counts(found):
    return (found.rows, found.nulls, found.nans, found.blanks)


def test_nulls_nans_and_blanks_are_missing_over_all_rows():
    numbers = measured([1.0, None, NAN, 2.0])
    assert counts(numbers) == (4, 1, 1, 0)
    assert numbers.null_rate == 0.5
    text = measured(["a", "", "  \t", None, "b"])
    assert counts(text) == (5, 1, 0, 2)
    assert text.null_rate == 0.6


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_is_measured_alike_in_every_encoding(kind):
    found = measured(pa.array(["a", "", None, "\u00a0", "a", ""]).cast(kind))
    assert counts(found) == (6, 1, 0, 3)
    assert (found.minimum, found.maximum) == (None, None)


def test_a_null_inside_a_dictionary_is_a_null():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, None], type=pa.int8()), pa.array(["a", None]))
    assert counts(measured(array)) == (4, 3, 0, 0)


def test_the_bounds_are_those_of_the_values_that_are_there():
    found = measured([None, 3.0, NAN, -1.5])
    assert (found.minimum, found.maximum) == (-1.5, 3.0)


def test_infinity_is_a_bound_like_any_other():
    found = measured([0.0, INF, -INF])
    assert (found.minimum, found.maximum) == (-INF, INF)


@pytest.mark.parametrize("values", [[None, None], [NAN, None], []])
def test_a_column_without_values_has_no_bounds(values):
    found = measured(values, pa.float64())
    assert (found.minimum, found.maximum) == (None, None)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, None, 1], pa.int8()),
        ([3, None, 1], pa.int64()),
        ([3.0, None, 1.0], pa.float32()),
        ([decimal.Decimal("3.00"), None, decimal.Decimal("1.00")], pa.decimal128(12, 2)),
        ([[3.0, 1.0], None, [2.0, 2.0]], pa.list_(pa.float32())),
        ([[3.0, 1.0], None, [2.0, 2.0]], pa.list_(pa.float32(), 2)),
    ],
)
def test_every_kind_of_number_has_bounds(values, kind):
    found = measured(values, kind)
    assert counts(found) == (3, 1, 0, 0)
    assert (found.minimum, found.maximum) == (1.0, 3.0)


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float64(), 2)])
def test_a_list_with_several_nans_is_one_missing_row(kind):
    found = measured([[NAN, NAN], None, [1.0, NAN], [1.0, 2.0]], kind)
    assert counts(found) == (4, 1, 2, 0)
    assert found.null_rate == 0.75


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.timestamp("us", tz="UTC")])
def test_other_types_are_counted_and_have_no_bounds(kind):
    found = measured(pa.nulls(2, kind))
    assert (counts(found), found.minimum) == ((2, 2, 0, 0), None)


def test_no_rows_have_no_null_rate():
    assert math.isnan(ColumnMeasure(column="x").null_rate)


@given(
    st.lists(st.none() | st.floats() | st.sampled_from([NAN, INF, -INF, 0.0]), max_size=40),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_it_does_not_matter_how_the_batches_are_cut(values, cuts):
    edges = sorted({0, len(values), *(cut for cut in cuts if cut <= len(values))})
    batches = [
        pa.record_batch([pa.array(values[first:last], type=pa.float64())], names=["x"])
        for first, last in itertools.pairwise(edges)
    ]
    found = column_measures(measure(batches, ["x"]))["x"]
    there = [value for value in values if value is not None and not math.isnan(value)]
    assert found.rows == len(values)
    assert found.nulls == values.count(None)
    assert found.nans == len(values) - len(there) - found.nulls
    assert (found.minimum, found.maximum) == (min(there, default=None), max(there, default=None))


def test_a_file_gives_the_columns_that_it_has_and_its_ids_in_one_pass(tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, ids in zip(paths, (["u1", "u2"], ["u3", "u1"]), strict=True):
        table = pa.table({"user_id": ids, "plan": ["", "x"], "age": [1, None]})
        with ParquetSink(path, table.schema) as sink:
            sink.write(table)
    hashes = IdHashes()
    table = measure_files(paths, ["user_id", "plan", "age", "aeg"], ids=hashes)
    assert table.schema == SCHEMA
    assert table["column"].to_pylist() == ["user_id", "plan", "age"]
    assert table["nulls"].to_pylist() == [0, 0, 2]
    assert table["blanks"].to_pylist() == [0, 2, 0]
    assert len(hashes.repeated()) == 1


def test_no_files_give_no_measures():
    assert measure_files([], ["x"]).num_rows == 0


def test_a_batch_without_the_column_is_an_error():
    with pytest.raises(DataError, match="column y"):
        measure([pa.record_batch([pa.array([1])], names=["x"])], ["y"])


def test_a_damaged_file_is_an_error(tmp_path):
    path = tmp_path / "users.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(CorruptError, match=r"users\.parquet"):
        measure_files([path], ["x"])
