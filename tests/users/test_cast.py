"""Typed columns into declared ones: exact, or struck."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import ContractError
from profile_assets.users.cast import cast_column
from profile_assets.users.contract import Column, parse_type
from profile_assets.users.source import CsvSettings

RULES = CsvSettings(null_values=())
UTC = dt.UTC


def cast(rows: pa.Array, declared: str, /, **more: object) -> tuple[list, list[str | None]]:
    """The cast values, and for each row its first fault."""
    result = cast_column(rows, Column(name="x", type=parse_type(declared), **more), RULES)
    assert result.values.type == parse_type(declared)
    faults = [
        next((fault.reason for fault in result.faults if fault.rows[row].as_py()), None) for row in range(len(rows))
    ]
    return result.values.to_pylist(), faults


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_integers_land_exactly_or_are_struck(values: list[int | None]) -> None:
    landed, faults = cast(pa.array(values, pa.int64()), "int16")
    for value, got, fault in zip(values, landed, faults, strict=True):
        fits = value is None or -(2**15) <= value < 2**15
        assert (got, fault) == ((value, None) if fits else (None, "not int16"))


def test_an_unsigned_integer_beyond_int64_is_struck() -> None:
    assert cast(pa.array([2**64 - 1, 2**63 - 1], pa.uint64()), "int64") == ([None, 2**63 - 1], ["not int64", None])


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9)


@given(st.lists(st.none() | DECIMALS))
def test_decimals_land_without_rounding_or_are_struck(values: list[Decimal | None]) -> None:
    landed, faults = cast(pa.array(values, pa.decimal128(20, 4)), "decimal(8,2)")
    for value, got, fault in zip(values, landed, faults, strict=True):
        fits = value is None or (abs(value) < 10**6 and value == round(value, 2))
        assert (got, fault) == ((value, None) if fits else (None, "not decimal(8,2)"))


def test_the_widest_decimals_are_compared_and_not_overflowed() -> None:
    top = Decimal("9" * 38)
    assert cast(pa.array([top]), "decimal(38,38)") == ([None], ["not decimal(38,38)"])
    assert cast(pa.array(["0." + "9" * 38]).cast(pa.decimal128(38, 38)), "decimal(38,0)")[1] == ["not decimal(38,0)"]
    assert cast(pa.array([top]), "decimal(38,0)")[1] == [None]


@given(st.lists(st.none() | st.floats()))
def test_an_infinity_is_struck_and_nan_is_left_to_the_null_rate(values: list[float | None]) -> None:
    landed, faults = cast(pa.array(values, pa.float64()), "float64")
    for value, got, fault in zip(values, landed, faults, strict=True):
        assert fault == ("infinite" if value is not None and math.isinf(value) else None)
        assert got == value or (math.isnan(value) and math.isnan(got))


def test_a_number_too_large_for_float32_is_struck_as_infinite() -> None:
    assert cast(pa.array([1e300, 1.5]), "float32")[1] == ["infinite", None]


def test_bounds_hold_and_null_breaks_none() -> None:
    assert cast(pa.array([-1, 0, 10, 11, None]), "int64", minimum=0.0, maximum=10.0)[1] == [
        "below the minimum",
        None,
        None,
        "above the maximum",
        None,
    ]


def test_a_bound_of_zero_is_a_bound() -> None:
    assert cast(pa.array([0.5, -0.5, math.nan]), "float64", maximum=0.0)[1] == ["above the maximum", None, None]
    assert cast(pa.array([Decimal("-0.01")]), "decimal(12,2)", minimum=0)[1] == ["below the minimum"]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_text_that_is_not_one_of_the_values_is_struck(kind: pa.DataType) -> None:
    texts = pa.array(["a", "c", None, ""]).cast(kind)
    assert cast(texts, "string", values=("a", "b"))[1] == [None, "not one of the values", None, "not one of the values"]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_nul_inside_a_text_is_struck(kind: pa.DataType) -> None:
    assert cast(pa.array(["a", "b\0c", None]).cast(kind), "string")[1] == [None, "holds a NUL", None]


def test_booleans_keep_their_nulls() -> None:
    assert cast(pa.array([True, None, False]), "bool") == ([True, None, False], [None] * 3)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_of_every_unit_land_in_microseconds(unit: str) -> None:
    moment = dt.datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert cast(pa.array([moment, None], pa.timestamp(unit, "Europe/Berlin")), "timestamp")[0] == [moment, None]


def test_nanoseconds_are_cut_off_and_not_refused() -> None:
    landed, faults = cast(pa.array([1_999], pa.int64()).view(pa.timestamp("ns", "UTC")), "timestamp")
    assert (landed, faults) == ([dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)], [None])


def test_an_instant_that_microseconds_cannot_hold_is_struck() -> None:
    far = pa.array([2**60, 0], pa.int64()).view(pa.timestamp("s", "UTC"))
    assert cast(far, "timestamp")[1] == ["not timestamp", None]


def test_a_time_without_a_zone_is_refused_unless_declared_to_be_utc(bench, contract) -> None:
    bench.parquet({"uid": ["a"], "seen": pa.array([1767614400 * 10**9]).cast(pa.timestamp("ns"))})
    with pytest.raises(ContractError, match="column 'seen' is a time without a zone"):
        bench.land(contract(seen="timestamp"))
    declared = Column(name="seen", type=parse_type("timestamp"), zoneless_is_utc=True)
    assert bench.land(contract(seen=declared)).column("seen") == [dt.datetime(2026, 1, 5, 12, tzinfo=UTC)]


ITEMS = st.none() | st.floats(width=32)


@given(st.lists(st.none() | st.lists(ITEMS, max_size=4)), st.sampled_from(["list<float32>", "list<float32,2>"]))
def test_lists_land_whole_or_are_struck(values: list, declared: str) -> None:
    landed, faults = cast(pa.array(values, pa.list_(pa.float32())), declared)
    for value, got, fault in zip(values, landed, faults, strict=True):
        whole = value is None or all(item is not None and math.isfinite(item) for item in value)
        fits = whole and (value is None or "2" not in declared.split(",")[-1][:1] or len(value) == 2)
        assert (got, fault) == ((value, None) if fits else (None, f"not {declared}"))


def test_a_sliced_list_is_judged_row_by_row() -> None:
    lists = pa.array([[math.inf], [1.0], None, [2.0, math.nan], [3.0]], pa.list_(pa.float64(), -1)).slice(1)
    assert cast(lists, "list<float32>")[1] == [None, None, "not list<float32>", None]
    fixed = pa.array([[math.inf], [1.0], None, [math.nan]], pa.list_(pa.float64(), 1)).slice(1)
    assert cast(fixed, "list<float32,1>")[1] == [None, None, "not list<float32,1>"]


@pytest.mark.parametrize("days", [-719_163, 2_932_897, -(2**31), 2**31 - 1])
def test_a_date_outside_the_years_1_to_9999_is_struck(days: int) -> None:
    far = pa.array([days, 0], pa.int32()).view(pa.date32())
    assert cast(far, "date") == ([None, dt.date(1970, 1, 1)], ["not date", None])


@pytest.mark.parametrize("micros", [-62_135_596_800_000_001, 253_402_300_800_000_000, -(2**63), 2**63 - 1])
def test_an_instant_outside_the_years_1_to_9999_is_struck(micros: int) -> None:
    far = pa.array([micros, 0], pa.int64()).view(pa.timestamp("us", "UTC"))
    assert cast(far, "timestamp")[1] == ["not timestamp", None]


def test_a_date64_that_is_no_whole_day_or_no_day_at_all_is_struck() -> None:
    millis = pa.array([86_400_000, 86_400_001, -86_400_000, 2**63 - 1, -(2**63), None], pa.int64()).view(pa.date64())
    landed, faults = cast(millis, "date")
    assert landed == [dt.date(1970, 1, 2), None, dt.date(1969, 12, 31), None, None, None]
    assert faults == [None, "not date", None, "not date", "not date", None]


def test_a_row_with_a_time_that_python_does_not_know_is_set_aside_all_the_same(bench, contract) -> None:
    far = pa.array([-(2**31), 0], pa.int32()).view(pa.date32())
    bench.parquet(pa.table({"uid": ["a", "b"], "born": far}))
    landed = bench.land(contract(born="date"))
    assert (landed.ids, landed.facts["reasons"]) == (["b"], {"born: not date": 1})


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 2), min_size=1),
    st.none() | st.floats(allow_nan=False) | st.integers(-(2**64), 2**64) | st.just(2**53) | st.just(2.0**53),
    st.none() | st.floats(allow_nan=False) | st.integers(-(2**64), 2**64) | st.just(2**53) | st.just(2.0**53),
)
def test_integers_are_held_against_their_bounds_exactly(values, low, high) -> None:
    column = Column(name="n", type=pa.int64(), minimum=low, maximum=high)
    struck = {"below the minimum": set(), "above the maximum": set()}
    for fault in cast_column(pa.array(values, pa.int64()), column, RULES).faults:
        struck.setdefault(fault.reason, set()).update(n for n, is_bad in enumerate(fault.rows.to_pylist()) if is_bad)
    known = [(n, value) for n, value in enumerate(values) if value is not None]
    assert struck == {
        "below the minimum": {n for n, value in known if low is not None and value < low},
        "above the maximum": {n for n, value in known if high is not None and value > high},
    }


@given(
    st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2), min_size=1),
    st.none() | st.floats(allow_nan=False) | st.integers(-(10**40), 10**40) | st.sampled_from([0.1, 0.005, -0.015]),
    st.none() | st.floats(allow_nan=False) | st.integers(-(10**40), 10**40) | st.sampled_from([0.1, 0.005, -0.015]),
)
def test_decimals_are_held_against_their_bounds_as_these_are_written(values, low, high) -> None:
    _, faults = cast(pa.array(values, pa.decimal128(12, 2)), "decimal(12,2)", minimum=low, maximum=high)
    least, most = (None if bound is None else Decimal(str(bound)) for bound in (low, high))
    for value, fault in zip(values, faults, strict=True):
        is_below = value is not None and least is not None and value < least
        is_above = value is not None and most is not None and value > most
        assert fault == ("below the minimum" if is_below else "above the maximum" if is_above else None)
