"""Ids are text or exact whole numbers, all of one family in a day, and land as text.

A float has lost ids before anybody could look (2^53 and 2^53+1 are one float), so a float id column is refused by
name; so is a CSV whose ids were evidently written from one. Null and blank ids are struck, everything else is kept as
it stands: "007", "NA" and "null" are ids.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError
from profile_assets.storage.parquet import is_text
from profile_assets.users.cast import nul_fault, plain_text
from profile_assets.users.faults import Cast, struck

Family = Literal["whole numbers", "text"]

_FROM_FLOAT = r"\A[+-]?[0-9]+\.(0+|[0-9]+[eE][+-]?[0-9]+)\z"


def id_family(kind: pa.DataType) -> Family | None:
    """What ids of this Arrow type are; None for a column of nulls, which says nothing. ValueError for other types."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return None
    if is_text(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_integer(kind) or (pa.types.is_decimal128(kind) and kind.scale == 0):
        return "whole numbers"
    raise ValueError(f"ids are {kind}, and only text or whole numbers are exact")


def cast_id(array: pa.Array) -> Cast:
    """The ids as plain text; null and blank ones struck."""
    if pa.types.is_null(array.type):
        return Cast(values=pa.nulls(len(array), pa.string()), faults=struck("null", pc.is_null(array)))
    ids = plain_text(array)
    blank = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(ids)), 0)
    return Cast(values=ids, faults=(*struck("null", pc.is_null(ids)), *struck("blank", blank), *nul_fault(ids)))


def require_not_from_float(ids: pa.Array, *, column: str, path: str) -> None:
    """ContractError where every id of a CSV looks like a printed float: 1.0, 9.223372036854775e+18."""
    present = ids.filter(pc.not_equal(ids, ""))
    if len(present) and pc.all(pc.match_substring_regex(present, _FROM_FLOAT)).as_py():
        raise ContractError(
            f"{path}: the ids in {column!r} were written from floats, such as {present[0].as_py()!r}",
            remedy="write the ids from whole numbers or text: a float has already merged some of them",
        )


class IdWatch:
    """Holds a day to one family of ids. Names the first row that is of another."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._first: tuple[Family, str] | None = None

    def see(self, kind: pa.DataType, *, path: str, row: int) -> None:
        """Ids of this type stand in the file from this row on."""
        family = id_family(kind)
        if family is None:
            return
        if self._first is None:
            self._first = (family, path)
        elif self._first[0] != family:
            raise mixed_ids(self._column, path, row, f"{family}, and {self._first[1]} has {self._first[0]}")


def mixed_ids(column: str, path: str, row: int, what: str) -> ContractError:
    """The error for ids of two families; `what` ends the sentence "row n of the file has ..."."""
    return ContractError(
        f"{path}: the ids in {column!r} are of two kinds; row {row} has {what}",
        remedy="write all ids as text, or all as whole numbers: 7 and '007' must not be guessed to be one user",
    )
