"""Text of CSV and NDJSON into declared types, exactly: an integer or a decimal never passes through a float.

Numbers follow the source's decimal mark and thousands separator. Dates are ISO (2026-01-31); instants are ISO with a
zone, digits below the microsecond cut off; both within the years 1 to 9999, instants in UTC. Booleans are true/false,
t/f, 1/0. What does not read so is struck.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.users.calendar import in_calendar
from profile_assets.users.contract import TIMESTAMP, Column, spell_type
from profile_assets.users.faults import Cast, keep_where, missed, struck
from profile_assets.users.source import CsvSettings

_NOT_FINITE = r"(?i:inf|infinity|nan)"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
_ZONE = r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_INSTANT = rf"\A[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}{_ZONE}\z"
_ZONELESS = rf"\A[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}\z"
_TRUE = pa.array(["true", "t", "1"])
_FALSE = pa.array(["false", "f", "0"])
_MAX_INTEGER_DIGITS = 20


def cast_text(text: pa.StringArray, column: Column, rules: CsvSettings) -> Cast:
    """A text column as the declared type, which is neither text nor a list."""
    text = pc.utf8_trim_whitespace(text)
    kind = column.type
    if pa.types.is_integer(kind):
        values = _integers(_numbers(text, rules), kind)
    elif pa.types.is_floating(kind):
        values = _floats(_numbers(text, rules, also=_NOT_FINITE), kind)
    elif pa.types.is_decimal(kind):
        values = _decimals(_numbers(text, rules), kind)
    elif pa.types.is_boolean(kind):
        values = _booleans(text)
    elif pa.types.is_date32(kind):
        values = _dates(text)
    else:
        return _timestamps(text, column)
    return Cast(values=values, faults=struck(f"not {spell_type(kind)}", missed(pc.is_valid(values), text)))


def integer_limits(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    is_signed = pa.types.is_signed_integer(kind)
    span = 1 << (kind.bit_width - is_signed)
    return (-span if is_signed else 0), span - 1


def _numbers(text: pa.StringArray, rules: CsvSettings, also: str = "") -> pa.StringArray:
    """The texts that are numbers by the source's rules, with a decimal point and no separators; null elsewhere."""
    mark = re.escape(rules.decimal)
    whole = "[0-9]+"
    if rules.thousands:
        whole = rf"(?:[0-9]{{1,3}}(?:{re.escape(rules.thousands)}[0-9]{{3}})+|[0-9]+)"
    number = rf"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    pattern = rf"\A[+-]?(?:{number}{'|' + also if also else ''})\z"
    good = keep_where(pc.match_substring_regex(text, pattern), text)
    if rules.thousands:
        good = pc.replace_substring(good, rules.thousands, "")
    return good if rules.decimal == "." else pc.replace_substring(good, rules.decimal, ".")


def _integers(numbers: pa.StringArray, kind: pa.DataType) -> pa.Array:
    plain = rf"\A[+-]?0*[0-9]{{1,{_MAX_INTEGER_DIGITS}}}\z"
    wide = keep_where(pc.match_substring_regex(numbers, plain), numbers).cast(pa.decimal128(38, 0))
    low, high = (pa.scalar(limit).cast(wide.type) for limit in integer_limits(kind))
    return keep_where(pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high)), wide).cast(kind)


def _floats(numbers: pa.StringArray, kind: pa.DataType) -> pa.Array:
    return numbers.cast(pa.float64()).cast(kind, safe=False)


def _decimals(numbers: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Only texts that the type holds without rounding. Zeros behind the last digit of the scale are no digits."""
    scale = kind.scale
    fits = rf"\A[+-]?0*[0-9]{{0,{kind.precision - scale}}}(\.[0-9]{{0,{scale}}}0*)?\z"
    good = keep_where(pc.match_substring_regex(numbers, fits), numbers)
    return pc.replace_substring_regex(good, rf"(\.[0-9]{{0,{scale}}})0*$", r"\1").cast(kind)


def _booleans(text: pa.StringArray) -> pa.Array:
    lower = pc.utf8_lower(text)
    is_true = pc.is_in(lower, _TRUE)
    return keep_where(pc.or_(is_true, pc.is_in(lower, _FALSE)), is_true)


def _dates(text: pa.StringArray) -> pa.Array:
    return in_calendar(keep_where(_is_date(text), text).cast(pa.date32()))


def _is_date(text: pa.StringArray) -> pa.Array:
    """Whether each text is a day of the calendar: strptime takes 30 February, but does not give it back."""
    parsed = pc.strptime(text, format="%Y-%m-%d", unit="s", error_is_null=True)
    return pc.equal(pc.strftime(parsed, format="%Y-%m-%d"), text)


def _timestamps(text: pa.StringArray, column: Column) -> Cast:
    zoneless = pc.fill_null(pc.match_substring_regex(text, _ZONELESS), False)
    if column.zoneless_is_utc:
        text = pc.if_else(zoneless, pc.binary_join_element_wise(text, "Z", ""), text)
        zoneless = pc.and_(zoneless, False)
    is_instant = pc.and_(_is_date(pc.utf8_slice_codeunits(text, 0, 10)), pc.match_substring_regex(text, _INSTANT))
    good = keep_where(is_instant, text)
    micros = pc.replace_substring_regex(good, r"(\.[0-9]{6})[0-9]+", r"\1")
    values = in_calendar(micros.cast(TIMESTAMP))
    wrong = pc.and_(missed(pc.is_valid(values), text), pc.invert(zoneless))
    return Cast(values=values, faults=(*struck("has no zone", zoneless), *struck("not timestamp", wrong)))
