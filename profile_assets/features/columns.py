"""What a column of the users table is to the network: numbers, or text.

Numbers come out as floating point with NaN where a value is missing; text as plain or dictionary-encoded strings.
Missing means null or NaN, and nothing else: an empty string is a value like any other. Whole columns only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Kind = Literal["numeric", "categorical"]
Column: TypeAlias = pa.Array | pa.ChunkedArray


def kind_of(kind: pa.DataType) -> Kind | None:
    """How a column of this type is encoded; None for a type that is neither a number nor text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        return "categorical" if _is_text(kind) else None
    if _is_text(kind):
        return "categorical"
    return "numeric" if _is_number(kind) else None


def can_hold(kind: pa.DataType, wanted: Kind) -> bool:
    """Whether a column of this type can feed a feature of that kind. A column of Arrow's null type feeds both."""
    return bool(pa.types.is_null(kind)) or kind_of(kind) == wanted


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def chunks_of(column: Column) -> list[pa.Array]:
    """The contiguous pieces of a column, in order."""
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def as_numbers(chunk: pa.Array) -> np.ndarray:
    """The values as float32 or float64, NaN where null or NaN. Shape (rows,); may be read-only."""
    if not (pa.types.is_float64(chunk.type) or pa.types.is_float32(chunk.type)):
        # safe=False: an int64 beyond 2^53 is rounded, as any number that a network sees is.
        whole = chunk.cast(pa.uint8()) if pa.types.is_boolean(chunk.type) else chunk
        chunk = whole.cast(pa.float64(), safe=False)
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


def as_text(chunk: pa.Array) -> pa.Array:
    """The values as Arrow's plain string type."""
    return chunk if pa.types.is_string(chunk.type) else chunk.cast(pa.string())


def text_counts(column: Column) -> dict[str, int]:
    """How often each value stands in a text column; missing ones are not counted."""
    counts: dict[str, int] = {}
    for chunk in chunks_of(column):
        plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
        found = pc.value_counts(as_text(plain).drop_null())
        for value, count in zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True):
            counts[value] = counts.get(value, 0) + count
    return counts
