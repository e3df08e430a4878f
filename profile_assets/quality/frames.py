"""A shard as the pandas frames that Great Expectations looks at, with no integer bent on the way.

pandas turns integers with a null among them into floats, of which 2^53 and 2^53+1 are one. Such columns come as its
nullable integers, and so do those with integers that no float holds: a plain one is compared with a limit as a float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_EXACT_IN_FLOAT = 2**53


@dataclass(frozen=True, kw_only=True)
class Frames:
    """The same rows twice. `one` is for rules on one column. `several` is for rules that compare columns, in which
    pandas' nullable integers cannot stand where one is missing: there floats are used, where they hold every value.
    """

    one: Any
    several: Any


def frames_of(table: pa.Table) -> Frames:
    """The frames of a shard."""
    plain = table.to_pandas()
    one, several = plain.copy(deep=False), plain.copy(deep=False)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_integer(column.type):
            is_large = _has_large(column)
            if is_large or column.null_count:
                one[name] = _nullable(column)
            if is_large:
                several[name] = one[name]
    return Frames(one=one, several=several)


def _has_large(column: pa.ChunkedArray) -> bool:
    """Whether some value is beyond those that float64 tells apart."""
    extremes = pc.min_max(column)
    if not extremes["min"].is_valid:
        return False
    return bool(extremes["min"].as_py() < -_EXACT_IN_FLOAT or extremes["max"].as_py() > _EXACT_IN_FLOAT)


def _nullable(column: pa.ChunkedArray) -> Any:
    import pandas as pd

    kinds = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
    }
    return column.to_pandas(types_mapper=kinds.get)
