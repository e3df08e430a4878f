"""Whether the columns of a day's files are those of the contract: by exact name, whatever their order, and by type.

Everything that is wrong in any file is told at once, in one ContractError, with the column that was probably meant.
A column may come in another dress of its type (large or dictionary text, a narrower or wider integer, decimals,
nulls only), never as another type: text is no number, a float is no integer, a zoneless time is no instant.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from profile_assets.errors import ContractError
from profile_assets.storage.parquet import is_text
from profile_assets.users.contract import TIMESTAMP, Column, Contract, spell_type
from profile_assets.users.ids import id_family
from profile_assets.users.source import Format

_FILES_NAMED = 3
_COLUMNS_NAMED = 20


def check_columns(schemas: Mapping[str, pa.Schema], contract: Contract, file_format: Format) -> None:
    """ContractError naming every mismatch of every file; `schemas` maps a file's path to its source columns."""
    found: dict[str, list[str]] = {}
    for path, schema in schemas.items():
        for problem in _problems(schema, contract, file_format):
            found.setdefault(problem, []).append(path)
    if found:
        told = "; ".join(f"{problem} (in {_some(paths)})" for problem, paths in found.items())
        raise ContractError(told, remedy="correct the files, or the contract's columns in the profile")


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
        return bool(pa.types.is_integer(kind))
    if pa.types.is_floating(declared):
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or _is_decimal(kind))
    if pa.types.is_decimal(declared):
        is_json_number = file_format == "ndjson" and pa.types.is_floating(kind)
        return bool(_is_decimal(kind) or pa.types.is_integer(kind) or is_json_number)
    return _same_family(declared, kind)


def _text_may_be(declared: pa.DataType, file_format: Format) -> bool:
    """All of a CSV is text; in JSON dates and decimals may be; a typed format has types for them."""
    if pa.types.is_string(declared) or file_format == "csv":
        return True
    is_json_text = pa.types.is_temporal(declared) or pa.types.is_decimal(declared)
    return bool(file_format == "ndjson" and is_json_text)


def _same_family(declared: pa.DataType, kind: pa.DataType) -> bool:
    families = (pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)
    return any(family(declared) and family(kind) for family in families)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_plain_text(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_string_view(kind))


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind))
