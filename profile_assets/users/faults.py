"""What is wrong with single values of a column, as masks over its rows.

A fault is a short reason ("not int32") and the rows that it strikes. Columns are cast whole: a value that cannot be
cast becomes null *and* is struck by a fault, so that its row is set aside and never lands with a hole.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`rows` is a boolean array without nulls, true where the value is wrong."""

    reason: str
    rows: pa.BooleanArray


@dataclass(frozen=True, kw_only=True)
class Cast:
    """A column in its declared type, and what was wrong with it. Only faults that strike a row are kept."""

    values: pa.Array
    faults: tuple[Fault, ...] = ()


def struck(reason: str, rows: pa.Array) -> tuple[Fault, ...]:
    """The fault over these rows (null counts as not struck), or nothing where it strikes none."""
    return (Fault(reason=reason, rows=pc.fill_null(rows, False)),) if pc.any(rows).as_py() else ()


def keep_where(good: pa.Array, values: pa.Array) -> pa.Array:
    """The values, null where they are not good (or already null)."""
    return pc.if_else(good, values, pa.scalar(None, values.type))


def missed(good: pa.Array, values: pa.Array) -> pa.Array:
    """True where there is a value, and it is not good."""
    return pc.and_(pc.is_valid(values), pc.invert(pc.fill_null(good, False)))
