"""Whether the columns of a day's files are those of the contract: by exact name, whatever their order, and by type.

Everything that is wrong in any file is told at once, in one ContractError, with the column that was probably meant.
A column may come in another dress of its type (large or dictionary text, a narrower or wider integer, decimals,
nulls only), never as another type: text is no number, a float is no integer, a zoneless time is no instant.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from profile_assets.errors import ContractError
from profile_assets.storage.parquet import is_text
from profile_assets.users.contract import TIMESTAMP, Column, Contract, spell_type
from profile_assets.users.ids import id_family
from profile_assets.users.source import Format

_FILES_NAMED = 3
_COLUMNS_NAMED = 20


@dataclass(frozen=True, kw_only=True)
class ColumnsBefore:
    """The source's columns of an earlier day, each with its type."""

    day: dt.date
    columns: Mapping[str, str]


Before = Callable[[], ColumnsBefore | None]


def check_columns(
    schemas: Mapping[str, pa.Schema], contract: Contract, file_format: Format, before: Before = lambda: None
) -> None:
    """ContractError naming every mismatch of every file, and what changed since an earlier day.

    `schemas` maps a file's path to its source columns; `before` is asked only where something is wrong.
    """
    found: dict[str, list[str]] = {}
    for path, schema in schemas.items():
        for problem in _problems(schema, contract, file_format):
            found.setdefault(problem, []).append(path)
    if found:
        told = "; ".join(f"{problem} (in {_some(paths)})" for problem, paths in found.items())
        raise ContractError(
            told + _since(before(), source_columns(schemas.values())),
            remedy="correct the files, or the contract's columns in the profile",
        )


def source_columns(schemas: Iterable[pa.Schema]) -> dict[str, str]:
    """Every column of these files with its type; with all of its types where the files differ. A column of nulls has
    the type that other files give it.
    """
    kinds: dict[str, set[str]] = {}
    for schema in schemas:
        for field in schema:
            kinds.setdefault(field.name, set()).update(() if pa.types.is_null(field.type) else (_plainly(field.type),))
    return {name: " or ".join(sorted(found)) or "null" for name, found in sorted(kinds.items())}


def _plainly(kind: pa.DataType) -> str:
    """A type as it is compared between days: text is text in any encoding."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return "string" if _is_plain_text(kind) else str(kind)


def _since(before: ColumnsBefore | None, now: Mapping[str, str]) -> str:
    if before is None:
        return ""
    old = before.columns
    changes = [f"{name!r} ({kind}) is gone" for name, kind in old.items() if name not in now]
    changes += [f"{name!r} ({kind}) is new" for name, kind in now.items() if name not in old]
    changes += [
        f"{name!r} was {kind} and is {now[name]}"
        for name, kind in old.items()
        if name in now and now[name] != kind and "null" not in (kind, now[name])
    ]
    told = ", ".join(changes[:_COLUMNS_NAMED]) or "no column changed"
    return f"; since {before.day}, the last day that landed: {told}"


def extra_columns(schema: pa.Schema, contract: Contract) -> tuple[str, ...]:
    """The columns of a file that the contract does not know: they are not read."""
    return tuple(name for name in schema.names if name != contract.id and name not in contract.names)


def absent_columns(schema: pa.Schema, contract: Contract) -> tuple[str, ...]:
    """The columns of the contract that are not in a file."""
    return tuple(name for name in contract.names if name not in schema.names)


def _some(paths: list[str]) -> str:
    more = len(paths) - _FILES_NAMED
    return ", ".join(paths[:_FILES_NAMED]) + (f" and {more} more" if more > 0 else "")


def _problems(schema: pa.Schema, contract: Contract, file_format: Format) -> Iterable[str]:
    counts = Counter(schema.names)
    yield from (f"column {name!r} stands there {n} times" for name, n in counts.items() if n > 1)
    if counts[contract.id] == 0:
        yield _missing(contract.id, "the id", schema, contract)
    elif counts[contract.id] == 1:
        yield from _id_problems(contract.id, schema.field(contract.id).type)
    for column in contract.columns:
        if counts[column.name] == 1:
            yield from _type_problems(column, schema.field(column.name).type, file_format)
        elif counts[column.name] == 0 and (column.required or _same_but_case(column.name, schema.names)):
            yield _missing(column.name, spell_type(column.type), schema, contract)
    for name in (contract.id, *contract.names):
        if name in counts and (twins := _same_but_case(name, schema.names)):
            yield f"column {name!r} has a twin that differs by case only: {', '.join(map(repr, twins))}"


def _same_but_case(name: str, names: Iterable[str]) -> list[str]:
    return [other for other in names if other != name and other.casefold() == name.casefold()]


def _missing(name: str, what: str, schema: pa.Schema, contract: Contract) -> str:
    free = extra_columns(schema, contract)
    near = _same_but_case(name, free) or [other for other in free if other.strip().casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, free, n=2, cutoff=0.6)
    if near:
        return f"column {name!r} ({what}) is missing; did you mean {' or '.join(map(repr, near))}?"
    there = ", ".join(schema.names[:_COLUMNS_NAMED])
    return f"column {name!r} ({what}) is missing among {there or 'no columns'}"


def _id_problems(name: str, kind: pa.DataType) -> Iterable[str]:
    try:
        id_family(kind)
    except ValueError as error:
        yield f"id column {name!r}: {error}"


def _type_problems(column: Column, kind: pa.DataType, file_format: Format) -> Iterable[str]:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.type == TIMESTAMP and pa.types.is_timestamp(kind) and kind.tz is None:
        if not column.zoneless_is_utc:
            yield f"column {column.name!r} is a time without a zone: write it with one, or set zoneless_is_utc"
    elif not _admits(column.type, kind, file_format):
        yield f"column {column.name!r} is {kind}, and the contract says {spell_type(column.type)}"


def _admits(declared: pa.DataType, kind: pa.DataType, file_format: Format) -> bool:
    """Whether a source column of type `kind` may land as `declared`."""
    if pa.types.is_null(kind):
        return True
    if _is_list(declared):
        return _is_list(kind) and _admits(declared.value_type, kind.value_type, file_format)
    if _is_plain_text(kind):
        return _text_may_be(declared, file_format)
    if pa.types.is_string(declared) or pa.types.is_integer(declared):
        is_sum = file_format == "sql" and pa.types.is_integer(declared) and _is_decimal(kind)
        return bool(pa.types.is_integer(kind)) or is_sum  # a database's sum of integers is a decimal
    if pa.types.is_floating(declared):
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or _is_decimal(kind))
    if pa.types.is_decimal(declared):
        is_json_number = file_format == "ndjson" and pa.types.is_floating(kind)
        return bool(_is_decimal(kind) or pa.types.is_integer(kind) or is_json_number)
    return _same_family(declared, kind)


def _text_may_be(declared: pa.DataType, file_format: Format) -> bool:
    """All of a CSV is text; in JSON and in databases dates and decimals may be; a typed format has types for them."""
    if pa.types.is_string(declared) or file_format == "csv":
        return True
    may_be = pa.types.is_temporal(declared) or pa.types.is_decimal(declared)
    return bool(file_format in ("ndjson", "sql") and may_be)


def _same_family(declared: pa.DataType, kind: pa.DataType) -> bool:
    families = (pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)
    return any(family(declared) and family(kind) for family in families)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_plain_text(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_string_view(kind))


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind))
