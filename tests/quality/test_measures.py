"""Measures: every row counts, however the batches are cut and whatever Arrow type holds them."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import AccountingError
from profile_assets.quality.counting import pieces_of
from profile_assets.quality.measures import SCHEMA, Measure, Meter, measure_split
from profile_assets.shards.split import split
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS, USERS_FILE, shard_file
from profile_assets.users.contract import Column, Contract

NAN, INF = math.nan, math.inf


def measured(values, kind=None):
    """The measure of one column, in one batch."""
    array = values if isinstance(values, pa.Array) else pa.array(values, type=kind)
    return add_up(array, [0, len(array)])


def add_up(array, bounds, column=None):
    """The measure of one column that is counted run by run."""
    found = Measure(column="x")
    for piece in pieces_of(array, column, np.array(bounds)):
        found.add(piece)
    return found


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
    assert math.isnan(Measure(column="x").null_rate)


@given(
    st.lists(st.none() | st.floats() | st.sampled_from([NAN, INF, -INF, 0.0]), max_size=40),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_it_does_not_matter_how_the_rows_are_cut(values, cuts):
    bounds = sorted([0, len(values), *(cut for cut in cuts if cut <= len(values))])
    column = Column(name="x", type=pa.float64(), minimum=-1.0, maximum=1.0)
    found = add_up(pa.array(values, type=pa.float64()), bounds, column)
    there = [value for value in values if value is not None and not math.isnan(value)]
    assert found.rows == len(values)
    assert found.nulls == values.count(None)
    assert found.nans == len(values) - len(there) - found.nulls
    assert (found.minimum, found.maximum) == (min(there, default=None), max(there, default=None))
    assert found.out_of_range == sum(not -1 <= value <= 1 for value in there)


@given(st.lists(st.none() | st.sampled_from(["", " ", "a", "b", "c"]), max_size=30), st.integers(0, 30))
@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_is_counted_run_by_run_in_every_encoding(kind, values, cut):
    column = Column(name="x", type=pa.string(), values=("a", "b", "", " "))
    found = add_up(pa.array(values, pa.string()).cast(kind), sorted([0, min(cut, len(values)), len(values)]), column)
    assert counts(found) == (len(values), values.count(None), 0, values.count("") + values.count(" "))
    assert found.out_of_range == values.count("c")


@pytest.mark.parametrize("kind", [pa.int32(), pa.decimal128(6, 2), pa.list_(pa.float32())])
def test_other_numbers_beyond_their_bounds_are_counted_too(kind):
    values = [[1.0], [9.0, 1.0], [9.0], None] if pa.types.is_list(kind) else [1, 9, 9, None]
    column = Column(name="x", type=pa.int32(), maximum=5)
    assert add_up(pa.array(values, type=kind), [0, 2, 4], column).out_of_range == 2


CONTRACT = Contract(
    id="customer",
    columns=(
        Column(name="age", type=pa.int64(), minimum=0, maximum=120),
        Column(name="spend", type=pa.float64()),
        Column(name="plan", type=pa.string()),
    ),
)


def users(rows, **changed):
    columns = {
        "user_id": [f"u{n}" for n in range(rows)],
        "age": [n % 150 if n % 7 else None for n in range(rows)],
        "spend": [NAN if n % 11 == 0 else None if n % 13 == 0 else float(n) for n in range(rows)],
        "plan": [("x", "", None)[n % 3] for n in range(rows)],
        **changed,
    }
    return pa.table({name: pa.array(columns[name], CONTRACT.schema.field(name).type) for name in CONTRACT.schema.names})


def as_rows(measures):
    return sorted(measures.table.to_pylist(), key=lambda row: (row["shard"], row["column"]))


def test_a_split_is_measured_in_the_pass_that_writes_it_just_as_its_files_would_be_read(layout, day, committed):
    committed(RAW_USERS, {USERS_FILE: users(1000)})
    meter = Meter(contract=CONTRACT)
    staged = split(layout, day, 5, watch=meter)
    watched = measure_split(CONTRACT, staged.folder, staged.manifest, meter)
    read = measure_split(CONTRACT, staged.folder, staged.manifest, Meter(contract=CONTRACT))
    assert as_rows(watched) == as_rows(read)
    assert watched.table.schema == SCHEMA
    assert len(as_rows(watched)) == 5 * 4
    day_of_age = watched.day["age"]
    assert (day_of_age.rows, day_of_age.nulls, day_of_age.maximum) == (1000, 143, 149.0)
    assert day_of_age.out_of_range == sum(n % 150 > 120 for n in range(1000) if n % 7)
    assert watched.day["spend"].nans == 91
    assert (watched.day["plan"].nulls, watched.day["plan"].blanks) == (333, 333)
    assert watched.day["user_id"].distinct == 1000


def test_shards_that_are_handed_back_unchanged_are_read_to_be_measured(layout, day, committed):
    committed(RAW_USERS, {USERS_FILE: users(50)})
    first = split(layout, day, 2)
    committed_folder = layout.stage(USER_SHARDS, day)
    committed_folder.parent.mkdir()
    first.folder.rename(committed_folder)
    meter = Meter(contract=CONTRACT)
    again = split(layout, day, 2, watch=meter)
    assert again.folder == committed_folder
    assert not meter.seen
    assert measure_split(CONTRACT, again.folder, again.manifest, meter).day["age"].rows == 50


def test_an_id_said_again_is_found_in_its_shard_and_words_that_ids_share_are_compared_as_text(stage):
    table = users(4, user_id=["a", "b", "a", "a"])
    staged = stage(USER_SHARDS, {shard_file(0, 1): table})
    assert (
        measure_split(CONTRACT, staged.folder, staged.manifest, Meter(contract=CONTRACT)).day["user_id"].distinct == 2
    )


def test_a_column_that_one_shard_lacks_is_no_column_of_the_day(stage):
    tables = {shard_file(0, 2): users(3), shard_file(1, 2): users(3, user_id=["x", "y", "z"]).drop_columns(["plan"])}
    staged = stage(USER_SHARDS, tables)
    assert "plan" not in measure_split(CONTRACT, staged.folder, staged.manifest, Meter(contract=CONTRACT)).day


def test_an_empty_shard_hides_no_column_of_the_day(stage):
    tables = {shard_file(0, 2): users(3), shard_file(1, 2): users(0)}
    staged = stage(USER_SHARDS, tables)
    assert measure_split(CONTRACT, staged.folder, staged.manifest, Meter(contract=CONTRACT)).day["plan"].rows == 3


def test_rows_that_were_measured_but_do_not_lie_on_the_disk_are_an_error(layout, day, committed):
    committed(RAW_USERS, {USERS_FILE: users(20)})
    meter = Meter(contract=CONTRACT)
    staged = split(layout, day, 1, watch=meter)
    meter.see_rows(users(1), 0, np.array([0, 1]))
    with pytest.raises(AccountingError, match="21 rows of user_id were measured"):
        measure_split(CONTRACT, staged.folder, staged.manifest, meter)
