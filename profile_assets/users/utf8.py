"""Text that is no text: formats that store bytes take any writer's word for it that they are UTF-8.

A row with such a value is broken, by its number, and never lands; only when a batch has one are values looked at
one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profile_assets.storage.parquet import is_text
from profile_assets.users.batches import BrokenRow
from profile_assets.users.json_lines import is_utf8


def split_off_bad_text(
    batch: pa.RecordBatch, numbers: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray, tuple[BrokenRow, ...]]:
    """The rows whose texts are UTF-8, their numbers, and the others. `numbers`: int64 (rows,).

    Raises ArrowInvalid where anything else is wrong with the batch.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return _without_bad_text(batch, numbers)
    return batch, numbers, ()


def _without_bad_text(
    batch: pa.RecordBatch, numbers: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray, tuple[BrokenRow, ...]]:
    broken: dict[int, BrokenRow] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if _holds_text(array.type):
            for place, value in _bad_values(array):
                reason = f"{name!r} is not UTF-8"
                text = value.decode(errors="backslashreplace")
                broken.setdefault(place, BrokenRow(number=int(numbers[place]), reason=reason, text=text))
    good = np.ones(batch.num_rows, dtype=bool)
    good[list(broken)] = False
    batch = _plain(batch).filter(pa.array(good))
    batch.validate(full=True)
    return batch, numbers[good], tuple(broken[place] for place in sorted(broken))


def _holds_text(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_string_view(kind))


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries, whose values would stay behind when the rows that use them go."""
    return pa.RecordBatch.from_arrays([_decoded(array) for array in batch.columns], names=batch.schema.names)


def _bad_values(array: pa.Array) -> list[tuple[int, bytes]]:
    """The places of values that are not UTF-8, and the values."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = _decoded(array).cast(pa.large_binary()).to_pylist()
        return [(place, value) for place, value in enumerate(values) if value is not None and not is_utf8(value)]
    return []
