"""Text into types: exact where it can be read, struck where it cannot."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.users.cast import cast_column
from profile_assets.users.contract import Column, parse_type
from profile_assets.users.source import CsvSettings

PLAIN = CsvSettings()
GERMAN = CsvSettings(decimal=",", thousands=".")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def read(texts: list[str | None], declared: str, rules: CsvSettings = PLAIN, **more: object) -> list:
    """The cast values; for a struck row its fault in place of the value."""
    column = Column(name="x", type=parse_type(declared), **more)
    cast = cast_column(pa.array(texts, pa.string()), column, rules)
    faults = [next((f.reason for f in cast.faults if f.rows[row].as_py()), None) for row in range(len(texts))]
    return [fault or value for fault, value in zip(faults, cast.values.to_pylist(), strict=True)]


@given(st.lists(st.integers(-(2**70), 2**70)))
def test_integers_are_exact_or_struck(values: list[int]) -> None:
    fits = [value if -(2**63) <= value < 2**63 else "not int64" for value in values]
    assert read([str(value) for value in values], "int64") == fits


@pytest.mark.parametrize("text", ["1.0", "1e3", "0x1F", "1 2", "--1", "١", "True", "1_000"])
def test_what_is_no_integer_is_struck(text: str) -> None:
    assert read([text], "int64") == ["not int64"]


def test_blank_is_null_and_zeros_and_signs_are_read() -> None:
    assert read(["", " 7 ", "+5", "-0", "0" * 60 + "9", None], "int8") == [None, 7, 5, 0, 9, None]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_read_as_python_reads_them(values: list[float]) -> None:
    assert read([repr(value) for value in values], "float64") == values


def test_infinity_is_struck_and_nan_is_missing() -> None:
    landed = read(["inf", "-Infinity", "1e400", "NaN", "nan"], "float64")
    assert landed[:3] == ["infinite"] * 3
    assert all(value != value for value in landed[3:])


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9)))
def test_decimals_are_exact(values: list[Decimal]) -> None:
    assert read([f"{value}00" for value in values], "decimal(12,2)") == values


@pytest.mark.parametrize("text", ["1.234", "12345678901.00", "1e2", ".", "+", "1.2.3", "inf"])
def test_a_decimal_that_would_be_rounded_is_struck(text: str) -> None:
    assert read([text], "decimal(12,2)") == ["not decimal(12,2)"]


def test_decimals_of_no_fraction_and_of_nothing_else() -> None:
    assert read(["5.000", "5.5", "007"], "decimal(5,0)") == [Decimal(5), "not decimal(5,0)", Decimal(7)]
    assert read([".25", "1.25"], "decimal(2,2)") == [Decimal("0.25"), "not decimal(2,2)"]


def test_a_decimal_comma_and_thousands_separators_are_read() -> None:
    assert read(["1.234.567,5", "12,25", "7", "1.23,4", "1,2,3"], "float64", GERMAN) == [
        1234567.5,
        12.25,
        7.0,
        "not float64",
        "not float64",
    ]
    assert read(["1.234,50"], "decimal(12,2)", GERMAN) == [Decimal("1234.50")]
    assert read(["1.234", "12.34"], "int32", GERMAN) == [1234, "not int32"]


def test_a_comma_is_no_decimal_point_unless_declared() -> None:
    assert read(["1,5", "1.5"], "float64") == ["not float64", 1.5]
    assert read(["1,5", "1.5"], "float64", CsvSettings(decimal=",")) == [1.5, "not float64"]


def test_booleans() -> None:
    assert read(["true", "FALSE", "t", "0", "yes", ""], "bool") == [True, False, True, False, "not bool", None]


@given(st.lists(st.dates()))
def test_every_date_is_read(values: list[dt.date]) -> None:
    assert read([value.isoformat() for value in values], "date") == values


@pytest.mark.parametrize("text", ["2026-02-30", "2026-13-01", "2026-1-5", "05.01.2026", "20260105", "2026-01-05T00:00"])
def test_what_is_no_day_is_struck(text: str) -> None:
    assert read([text], "date") == ["not date"]


ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=ZONES).filter(lambda moment: 1 < moment.year < 9999)


@given(st.lists(MOMENTS), st.sampled_from(["T", " "]))
def test_every_instant_with_a_zone_is_read(values: list[dt.datetime], between: str) -> None:
    assert read([value.isoformat(sep=between) for value in values], "timestamp") == values


def test_instants_in_other_spellings() -> None:
    noon = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
    texts = [
        "2026-01-05T12:00:00Z",
        "2026-01-05 12:00Z",
        "2026-01-05 13:00:00+01",
        "2026-01-05 13:00:00.000000999+0100",
    ]
    assert read(texts, "timestamp") == [noon] * 4


@pytest.mark.parametrize(
    "text", ["2026-02-30T00:00:00Z", "2026-01-05T24:00:00Z", "2026-01-05T12:60:00Z", "now", "1767571200"]
)
def test_what_is_no_instant_is_struck(text: str) -> None:
    assert read([text], "timestamp") == ["not timestamp"]


def test_an_instant_without_a_zone_is_struck_unless_declared_to_be_utc() -> None:
    assert read(["2026-01-05 12:00:00"], "timestamp") == ["has no zone"]
    assert read(["2026-01-05 12:00:00", "2026-01-05 12:00:00+02:00"], "timestamp", zoneless_is_utc=True) == [
        dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 5, 10, tzinfo=dt.UTC),
    ]


@given(
    st.lists(st.none() | TEXTS | st.from_regex(r"[0-9+\-.,eE:TZ ]{1,25}", fullmatch=True)),
    st.sampled_from(
        ["int8", "int64", "float32", "float64", "decimal(12,2)", "decimal(3,0)", "bool", "date", "timestamp"]
    ),
    st.sampled_from([PLAIN, GERMAN, CsvSettings(decimal=",", thousands=" ")]),
)
def test_any_text_at_all_is_read_or_struck(texts: list[str | None], declared: str, rules: CsvSettings) -> None:
    for text, value in zip(texts, read(texts, declared, rules), strict=True):
        assert (value is None) == (text is None or text == "")


def test_dates_outside_the_years_1_to_9999_are_struck() -> None:
    texts = ["0000-01-01", "0000-12-31", "0001-01-01", "9999-12-31"]
    assert read(texts, "date") == ["not date", "not date", dt.date(1, 1, 1), dt.date(9999, 12, 31)]


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-14:00", "0000-06-01T00:00:00Z"])
def test_instants_outside_the_years_1_to_9999_in_utc_are_struck(text: str) -> None:
    assert read([text], "timestamp") == ["not timestamp"]
    assert read([text[:19] + "Z"], "timestamp", zoneless_is_utc=True)[0] == (
        "not timestamp" if text.startswith("0000") else dt.datetime.fromisoformat(text[:19]).replace(tzinfo=dt.UTC)
    )
