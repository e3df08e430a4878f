"""One line of NDJSON taken apart without bending a number, and columns of such values as exact text.

Numbers stay the digits that stand in the line. A line that is no JSON object, or has a key twice, is no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

WHOLE = re.compile(r"-?[0-9]{1,38}")


class NotARowError(ValueError):
    """A line that is no row; says why in a few words."""


class Number(str):
    """A JSON number, as its digits."""

    __slots__ = ()


def parse_line(line: bytes) -> dict[str, Any]:
    """The object on a line, numbers as `Number`. Raises NotARowError."""
    try:
        text = line.decode()
        value = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_keys_once
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except UnicodeError as error:
        raise NotARowError("not UTF-8") from error
    except NotARowError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotARowError("not JSON") from error
    if not isinstance(value, dict):
        raise NotARowError("not a JSON object")
    return value


def is_utf8(data: bytes) -> bool:
    """Whether these bytes are UTF-8: Arrow's JSON reader does not ask."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotARowError("a key twice")
    return value


def as_column(values: Sequence[Any], declared: pa.DataType) -> pa.Array:
    """Values as text that casts to `declared` only where the JSON type was right; for lists, lists of such text."""
    may_be_text = bool(pa.types.is_string(declared) or pa.types.is_temporal(declared) or pa.types.is_decimal(declared))
    if pa.types.is_list(declared) or pa.types.is_fixed_size_list(declared):
        return pa.array([_items(value) for value in values], pa.list_(pa.string()))
    return pa.array([_text(value, may_be_text) for value in values], pa.string())


def _items(value: Any) -> list[str | None] | None:
    if value is None:
        return None
    return [_text(item, False) for item in (value if isinstance(value, list) else [json.dumps(value)])]


def _text(value: Any, may_be_text: bool) -> str | None:
    """Text where text is not called for stays in its quotes, so that it never reads as a number."""
    if value is None or isinstance(value, Number):
        return value
    if isinstance(value, str) and may_be_text:
        return value
    return json.dumps(value, ensure_ascii=False)


def columns_of(objects: Iterable[dict[str, Any]]) -> pa.Schema | None:
    """The columns of these objects with the type that all their values share (null where they share none);
    None where there are no objects.
    """
    kinds: dict[str, set[pa.DataType]] = {}
    is_empty = True
    for value in objects:
        is_empty = False
        for name, item in value.items():
            kinds.setdefault(name, set()).update(() if item is None else (_kind(item),))
    return None if is_empty else pa.schema([(name, _shared(found)) for name, found in kinds.items()])


def _kind(value: Any) -> pa.DataType:
    if isinstance(value, Number):
        return pa.int64() if WHOLE.fullmatch(value) else pa.float64()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, list):
        return pa.list_(_shared({_kind(item) for item in value if item is not None}))
    return pa.string() if isinstance(value, str) else pa.struct([])


def _shared(kinds: set[pa.DataType]) -> pa.DataType:
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds and all(pa.types.is_list(kind) for kind in kinds):
        return pa.list_(_shared({kind.value_type for kind in kinds if not pa.types.is_null(kind.value_type)}))
    return pa.null()
