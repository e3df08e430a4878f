"""What the users table promises: columns with declared types, bounds, and what is done with repeated users.

Types are declared, never inferred: `parse_type` reads the few spellings that a profile may use and `spell_type`
writes them back. The id is no column of its own here; whatever the source calls it, it lands as `user_id`, as text.
Mistakes in a contract are ValueErrors, which the profile collects and reports together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from profile_assets.storage.records import digest_of
from profile_assets.storage.stages import ID_COLUMN

Keep = Literal["first", "last"]

TIMESTAMP = pa.timestamp("us", tz="UTC")
_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_SPELLINGS = {kind: name for name, kind in _TYPES.items()}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_LIST = re.compile(r"list<\s*(float32|float64)\s*(?:,\s*([1-9]\d*)\s*)?>")


def parse_type(text: str) -> pa.DataType:
    """The Arrow type that a spelling stands for; ValueError for any other text.

    "timestamp" is an instant: microseconds in UTC. "list<float32,8>" holds exactly eight numbers a row.
    """
    text = text.strip()
    if text in _TYPES:
        return _TYPES[text]
    if match := _DECIMAL.fullmatch(text):
        return _decimal(int(match[1]), int(match[2]))
    if match := _LIST.fullmatch(text):
        return pa.list_(_TYPES[match[1]], int(match[2]) if match[2] else -1)
    known = ", ".join([*_TYPES, "decimal(12,2)", "list<float32>", "list<float32,8>"])
    raise ValueError(f"{text!r} is not a type; known are {known}")


def _decimal(precision: int, scale: int) -> pa.DataType:
    if not (1 <= precision <= 38 and scale <= precision):
        raise ValueError(f"decimal({precision},{scale}) needs 1 <= precision <= 38 and scale <= precision")
    return pa.decimal128(precision, scale)


def spell_type(kind: pa.DataType) -> str:
    """The spelling of a declared type; Arrow's own name for any other."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_fixed_size_list(kind):
        return f"list<{spell_type(kind.value_type)},{kind.list_size}>"
    if pa.types.is_list(kind):
        return f"list<{spell_type(kind.value_type)}>"
    return _SPELLINGS.get(kind, str(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether bounds make sense for this type."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


@dataclass(frozen=True, kw_only=True)
class Column:
    """One promised column. Bounds are inclusive; a null breaks none of them (its rate is judged later).

    `required` means that the column stands in every file; where another one is absent it lands as nulls.
    `zoneless_is_utc` reads timestamps without a zone as UTC; they are refused otherwise.
    A `personal` column is hashed wherever a single row is shown or set aside.
    """

    name: str
    type: pa.DataType
    required: bool = True
    max_null_rate: float = 1.0
    minimum: int | float | None = None
    maximum: int | float | None = None
    values: tuple[str, ...] | None = None
    personal: bool = False
    zoneless_is_utc: bool = False

    def __post_init__(self) -> None:
        has_bounds = self.minimum is not None or self.maximum is not None
        if has_bounds and not is_number(self.type):
            raise ValueError(f"column {self.name!r}: minimum and maximum are for numbers, not {spell_type(self.type)}")
        if self.values is not None and self.type != pa.string():
            raise ValueError(f"column {self.name!r}: values are for string, not {spell_type(self.type)}")
        if self.values is not None and not self.values:
            raise ValueError(f"column {self.name!r}: values lists nothing, so that no text would be kept")
        if self.values is not None and len(set(self.values)) < len(self.values):
            twice = next(one for place, one in enumerate(self.values) if one in self.values[:place])
            raise ValueError(f"column {self.name!r}: values lists {twice!r} twice; keep one")
        if self.zoneless_is_utc and self.type != TIMESTAMP:
            raise ValueError(f"column {self.name!r}: zoneless_is_utc is for timestamp, not {spell_type(self.type)}")
        if not 0.0 <= self.max_null_rate <= 1.0:
            raise ValueError(f"column {self.name!r}: max_null_rate {self.max_null_rate} is not within 0 and 1")


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The users table of a profile. `id` is the source's name of the id column, `keep` the row that stays of a
    user who stands there more than once, `max_quarantine_rate` the share of rows that may be set aside in a day.
    """

    id: str
    columns: tuple[Column, ...]
    keep: Keep = "first"
    max_quarantine_rate: float = 0.0

    def __post_init__(self) -> None:
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep {self.keep!r} is neither 'first' nor 'last'")
        if not 0.0 <= self.max_quarantine_rate <= 1.0:
            raise ValueError(f"max_quarantine_rate {self.max_quarantine_rate} is not within 0 and 1")
        _distinct([self.id, *(column.name for column in self.columns)])
        if ID_COLUMN in (name.casefold() for name in self.names):
            raise ValueError(f"{ID_COLUMN!r} is what the id lands as: no other column may be called so")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The landed table: `user_id` first, then the columns in their declared order."""
        return pa.schema([(ID_COLUMN, pa.string()), *((column.name, column.type) for column in self.columns)])

    @property
    def digest(self) -> str:
        """Of everything that decides which rows and values land; limits that only judge are left out."""
        return digest_of([self.id, self.keep, [_shape(column) for column in self.columns]])


def _shape(column: Column) -> list[object]:
    values = None if column.values is None else list(column.values)
    bounds = [column.minimum, column.maximum, values]
    return [column.name, spell_type(column.type), column.required, column.zoneless_is_utc, column.personal, bounds]


def _distinct(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if other := seen.get(name.casefold()):
            raise ValueError(f"columns {other!r} and {name!r} differ by case at most: no reader could tell them apart")
        seen[name.casefold()] = name
