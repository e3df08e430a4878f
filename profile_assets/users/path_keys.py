"""Keys in a file's path (`country=de/part-0.parquet`), as hive tables have them.

A column of that name in the file must say the same, row by row; where the file has none, the path's value stands in
for it, as Spark and Hive write tables. A day is compared by its date, whatever time stands behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError
from profile_assets.storage.parquet import is_text
from profile_assets.users.faults import Fault, struck

_KEY = re.compile(r"([A-Za-z_]\w*)=(.*)")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def keys_in(folders: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    """The keys and values of these folder names, percent signs decoded; None for hive's word for null."""
    found = {
        match[1]: None if match[2] == _NULL else unquote(match[2]) for match in map(_KEY.fullmatch, folders) if match
    }
    return tuple(found.items())


def stand_in(value: str | None, rows: int) -> pa.Array:
    """The column that a key of the path stands for."""
    return pa.nulls(rows) if value is None else pa.repeat(pa.scalar(value, pa.string()), rows)


def require_comparable(schema: pa.Schema, keys: Mapping[str, str | None], path: str) -> None:
    """ContractError where a key of the path is a column of a type that cannot hold the path's value."""
    for key, value in keys.items():
        if key in schema.names and value is not None and not _is_comparable(schema.field(key).type, value):
            raise ContractError(
                f"{path}: column {key!r} is {schema.field(key).type}, and cannot be compared with the {key} "
                f"in the file's path, {value!r}",
                remedy="write it in that column as it stands in the path, or leave the column out of the files",
            )


def path_faults(column: pa.Array, value: str | None, what: str) -> tuple[Fault, ...]:
    """The rows of a comparable column that say something else than the path."""
    return struck(f"not the {what} in its path", pc.fill_null(_differs(column, value), value is not None))


def _is_comparable(kind: pa.DataType, value: str) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return True
    if pa.types.is_temporal(kind):
        return _ISO_DAY.fullmatch(value) is not None
    return _as_type(value, kind) is not None


def _as_type(value: str, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _differs(column: pa.Array, value: str | None) -> pa.Array:
    """Null where the column is null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if value is None:
        return pc.is_valid(column)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.bool_())
    if _ISO_DAY.fullmatch(value):
        return pc.not_equal(pc.utf8_slice_codeunits(column.cast(pa.string()), 0, 10), value)
    if is_text(column.type) or pa.types.is_string_view(column.type):
        return pc.not_equal(column.cast(pa.string()), value)
    return pc.not_equal(column, _as_type(value, column.type))
