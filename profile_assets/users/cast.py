"""A source column in any Arrow dress into its declared type, whole columns at a time, with what is wrong struck.

Integers and decimals are cast exactly or not at all. An infinity is never a number here; NaN and null are missing.
Bounds and allowed values are judged on the cast values, and null breaks none of them. Which source types may become
which declared types was settled before, for the file as a whole (`columns.py`).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.storage.parquet import is_text
from profile_assets.users.calendar import in_calendar
from profile_assets.users.contract import TIMESTAMP, Column, spell_type
from profile_assets.users.faults import Cast, Fault, keep_where, missed, struck
from profile_assets.users.source import CsvSettings
from profile_assets.users.text import cast_text, integer_limits

_NUL = "\0"
_WIDE_PRECISION = 76
_WIDE = Context(prec=400)  # digits of the largest float64, and then some
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROS_LIMIT = 2**63 // 1_000_000
_DAY_MILLIS = 86_400_000


def cast_column(array: pa.Array, column: Column, rules: CsvSettings) -> Cast:
    """The values of a column as `column.type`, and every fault: of type, of bounds, of allowed values."""
    cast = _typed(array, column, rules)
    return Cast(values=cast.values, faults=(*cast.faults, *_bounds(cast.values, column)))


def plain_text(array: pa.Array) -> pa.StringArray:
    """Text in any encoding, or whole numbers, as plain text."""
    if pa.types.is_dictionary(array.type) and not is_text(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string())


def nul_fault(array: pa.Array) -> tuple[Fault, ...]:
    """Texts that hold a NUL: half of the programs that read them would cut them there."""
    if not pa.types.is_dictionary(array.type):
        return struck("holds a NUL", pc.match_substring(array, _NUL))
    if not pc.any(pc.match_substring(plain_text(array.dictionary), _NUL)).as_py():
        return ()
    return struck("holds a NUL", pc.match_substring(plain_text(array), _NUL))


def _typed(array: pa.Array, column: Column, rules: CsvSettings) -> Cast:
    kind = column.type
    if pa.types.is_null(array.type):
        return Cast(values=pa.nulls(len(array), kind))
    if pa.types.is_string(kind):
        return _text(array, column, rules)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array, column, rules)
    if is_text(array.type):
        return cast_text(_without_nulls_by_name(plain_text(array), rules), column, rules)
    return _native(array, column)


def _native(array: pa.Array, column: Column) -> Cast:
    """Numbers, booleans and times that have a type already."""
    kind = column.type
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_integer(kind):
        values = _integers(array, kind)
    elif pa.types.is_decimal(kind):
        values = _decimals(array, kind)
    elif kind == TIMESTAMP:
        values = in_calendar(_timestamps(array))
    elif pa.types.is_date32(kind):
        values = in_calendar(_dates(array))
    else:
        values = array.cast(kind, safe=not pa.types.is_floating(kind))
    return Cast(values=values, faults=struck(f"not {spell_type(kind)}", missed(pc.is_valid(values), array)))


def _text(array: pa.Array, column: Column, rules: CsvSettings) -> Cast:
    if not is_text(array.type):
        array = plain_text(array)
    elif not pa.types.is_dictionary(array.type):
        array = _without_nulls_by_name(plain_text(array), rules)
    faults = nul_fault(array)
    if column.values is not None:
        allowed = pc.is_in(array, value_set=pa.array(column.values, pa.string()))
        faults += struck("not one of the values", missed(allowed, array))
    return Cast(values=plain_text(array), faults=faults)


def _without_nulls_by_name(text: pa.StringArray, rules: CsvSettings) -> pa.StringArray:
    if not rules.null_values:
        return text
    return keep_where(pc.invert(pc.is_in(text, value_set=pa.array(rules.null_values, pa.string()))), text)


def _integers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    low, high = integer_limits(kind)
    array_low, array_high = integer_limits(array.type)
    good = pc.and_(
        pc.greater_equal(array, pa.scalar(max(low, array_low), array.type)),
        pc.less_equal(array, pa.scalar(min(high, array_high), array.type)),
    )
    return keep_where(good, array).cast(kind)


def _decimals(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values that the type holds without rounding; null elsewhere."""
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    scale = max(array.type.scale, kind.scale)
    wide = array.cast(pa.decimal256(_WIDE_PRECISION, scale))
    nines = f"0{'9' * (kind.precision - kind.scale)}.{'9' * kind.scale}0"
    is_within = pc.less_equal(pc.abs(wide), pa.scalar(nines).cast(wide.type))
    is_exact = pc.equal(pc.round(wide, ndigits=kind.scale), wide)
    return keep_where(pc.and_(is_within, is_exact), wide).cast(kind)


def _timestamps(array: pa.Array) -> pa.Array:
    """Instants in microseconds: finer digits are cut off, instants that microseconds cannot hold become null."""
    limit = _MICROS_LIMIT * _PER_SECOND[array.type.unit]
    if limit < 2**63:
        ticks = array.view(pa.int64())
        array = keep_where(pc.and_(pc.less(ticks, limit), pc.greater(ticks, -limit)), array)
    return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(TIMESTAMP)


def _dates(array: pa.Array) -> pa.Array:
    """Days; a date64 that is no whole day, or beyond what days can hold, becomes null."""
    if pa.types.is_date32(array.type):
        return array
    millis = array.view(pa.int64())
    days = pc.divide(millis, _DAY_MILLIS)
    is_exact = pc.and_(pc.equal(pc.multiply(days, _DAY_MILLIS), millis), pc.less(pc.abs_checked(days), 2**31))
    return keep_where(is_exact, days).cast(pa.int32()).view(pa.date32())


def _lists(array: pa.Array, column: Column, rules: CsvSettings) -> Cast:
    """Lists of finite numbers; a list with anything else in it, or of another length, is struck as a whole."""
    kind = column.type
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    items = cast_column(array.flatten(), Column(name=column.name, type=kind.value_type), rules)
    wrong = pc.is_null(items.values, nan_is_null=True)
    for fault in items.faults:
        wrong = pc.or_(wrong, fault.rows)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    good = np.ones(len(array), dtype=bool)
    good[np.repeat(np.arange(len(array)), lengths)[wrong.to_numpy(zero_copy_only=False)]] = False
    if pa.types.is_fixed_size_list(kind):
        good &= lengths == kind.list_size
    values = keep_where(pa.array(good), _relisted(array, lengths, items.values)).cast(kind)
    return Cast(values=values, faults=struck(f"not {spell_type(kind)}", missed(pa.array(good), array)))


def _relisted(array: pa.Array, lengths: np.ndarray, items: pa.Array) -> pa.Array:
    """The lists of `array`, `lengths` long, with `items` as their flattened values."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pc.is_null(array))


def _bounds(values: pa.Array, column: Column) -> tuple[Fault, ...]:
    faults: tuple[Fault, ...] = ()
    if pa.types.is_floating(column.type):
        faults += struck("infinite", pc.is_inf(values))
    if column.minimum is not None:
        faults += struck("below the minimum", _is_below(values, column.minimum))
    if column.maximum is not None:
        faults += struck("above the maximum", _is_above(values, column.maximum))
    return faults


def _is_below(values: pa.Array, bound: float) -> pa.Array:
    """Integers and decimals are compared as such: float64 tells not all of them apart."""
    if _is_inexact(values, bound):
        return pc.less(values.cast(pa.float64(), safe=False), float(bound))
    low, high = _exact_limits(values.type)
    least = _on_grid(bound, values.type, ROUND_CEILING)
    return pc.less(values, pa.scalar(max(low, least), values.type)) if least <= high else pc.is_valid(values)


def _is_above(values: pa.Array, bound: float) -> pa.Array:
    if _is_inexact(values, bound):
        return pc.greater(values.cast(pa.float64(), safe=False), float(bound))
    low, high = _exact_limits(values.type)
    most = _on_grid(bound, values.type, ROUND_FLOOR)
    return pc.greater(values, pa.scalar(min(high, most), values.type)) if most >= low else pc.is_valid(values)


def _is_inexact(values: pa.Array, bound: float) -> bool:
    return pa.types.is_floating(values.type) or (isinstance(bound, float) and not math.isfinite(bound))


def _exact_limits(kind: pa.DataType) -> tuple[Decimal, Decimal] | tuple[int, int]:
    """The least and the greatest value of an integer or decimal type."""
    if pa.types.is_integer(kind):
        return integer_limits(kind)
    most = Decimal((0, (9,) * kind.precision, -kind.scale))
    return -most, most


def _on_grid(bound: float, kind: pa.DataType, rounding: str) -> Any:
    """The bound as the nearest value of such a type, whether or not the type reaches so far.

    Beside decimals 0.1 is what was written, and not the float64 next to it.
    """
    if pa.types.is_integer(kind):
        return int(Decimal(bound).to_integral_value(rounding, _WIDE))
    written = Decimal(str(bound) if isinstance(bound, float) else bound)
    return written.quantize(Decimal((0, (1,), -kind.scale)), rounding, _WIDE)
