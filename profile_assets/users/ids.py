"""Ids are text or exact whole numbers, all of one family in a day, and land as text.

A float has lost ids before anybody could look (2^53 and 2^53+1 are one float), so a float id column is refused by
name; so is a file of text ids that were evidently written from one (`FloatWatch`). Null and blank ids are struck,
everything else is kept as it stands: "007", "NA" and "null" are ids.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError
from profile_assets.storage.parquet import is_text
from profile_assets.users.cast import nul_fault, plain_text
from profile_assets.users.faults import Cast, struck

Family = Literal["whole numbers", "text"]

# What floats look like once they are text: 7.0, 7,0, 9.2e+18, 9,22E+18, 1e16; never 1.5, which may be a version.
_FROM_FLOAT = r"\A[+-]?(?:[0-9]+[.,](?:0+|[0-9]+[eE][+-]?[0-9]+)|[0-9]+[eE][+-][0-9]+|[0-9][eE][0-9]+)\z"
_WHOLE = r"\A[+-]?(?:0|[1-9][0-9]*)\z"
_NULL_LIKE = pa.array(
    ["", r"\n", "-", "na", "n/a", "#n/a", "<na>", "nan", "+nan", "-nan", "inf", "+inf", "-inf", "null", "none", "nil"]
)


def id_family(kind: pa.DataType) -> Family | None:
    """What ids of this Arrow type are; None for a column of nulls, which says nothing. ValueError for other types."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return None
    if _is_any_text(kind):
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


class FloatWatch:
    """Tells a file whose text ids were written from floats.

    It is one where some id reads as a printed float and every other one reads so too, is a plain whole number (a
    spreadsheet prints only the long ones as 9.2E+18) or a word for null. One id that is anything else makes all of
    them text: "1.0" beside "beta", "1.5" or "007" is an id like any other.
    """

    def __init__(self, column: str, path: str) -> None:
        self._column = column
        self._path = path
        self._is_text = False
        self._first: tuple[int, str] | None = None

    def see(self, ids: pa.Array, numbers: np.ndarray) -> None:
        """Some ids of the file, with the numbers of their rows."""
        if self._is_text or not _is_any_text(ids.type):
            return
        text = plain_text(ids)
        if pc.all(pc.ascii_is_decimal(text), min_count=0).as_py():  # no need of slow patterns: most days are so
            has_zeros_before = pc.and_(pc.starts_with(text, "0"), pc.greater(pc.binary_length(text), 1))
            self._is_text = bool(pc.any(has_zeros_before, min_count=0).as_py())
            return
        text = pc.utf8_trim_whitespace(text)
        is_float = pc.fill_null(pc.match_substring_regex(text, _FROM_FLOAT), False)
        is_neutral = pc.or_(pc.match_substring_regex(text, _WHOLE), pc.is_in(pc.utf8_lower(text), value_set=_NULL_LIKE))
        self._is_text = not pc.all(pc.or_(is_float, pc.fill_null(is_neutral, True))).as_py()
        place = pc.index(is_float, True).as_py()
        if self._first is None and place >= 0:
            self._first = int(numbers[place]), text[place].as_py()

    def require_none(self) -> None:
        """ContractError, once the whole file was seen, where its ids were written from floats."""
        if self._first is not None and not self._is_text:
            row, shown = self._first
            raise ContractError(
                f"{self._path}: the ids in {self._column!r} were written from floats; row {row} has {shown!r}",
                remedy="write the ids from whole numbers or text: a float has already merged some of them",
            )


def _is_any_text(kind: pa.DataType) -> bool:
    """Whether it is text in any encoding."""
    return is_text(kind) or bool(pa.types.is_string_view(kind))


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
