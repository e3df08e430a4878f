"""What can be wrong in [source] and [labels], in the raw TOML, one line a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from profile_assets.users.query_text import asks_for_day

_OF_NUMBERS = {"decimal": '+-"', "thousands": '+-"'}


def tables_in(value: Any) -> list[Mapping[str, Any]]:
    """The tables of a list; whatever else stands there is left to pydantic."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []


def table_in(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of a table; an empty one where it is absent or none."""
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


def source_mistakes(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    """A table lies in files or in a database, and either is asked for one day."""
    yield from _csv_mistakes(name, table_in(table, "csv"))
    yield from _path_mistakes(name, str(table.get("path", "")))
    query = table.get("query")
    if bool(table.get("path")) == bool(query):
        yield f"{name}: give either path (files) or query and url_env (a database)"
    if not isinstance(query, str):
        return
    if not table.get("url_env"):
        yield f"{name}.url_env: is missing; name the environment variable that holds the database's URL"
    if not asks_for_day(query):
        yield f"{name}.query: has no :day, and would give every day the same rows; add `where day = :day`"
    if table.get("ready") == "_SUCCESS":
        yield f'{name}.ready: a query has no folder for _SUCCESS; write "stable_for 5m", or remove it'


def _csv_mistakes(name: str, csv: Mapping[str, Any]) -> Iterator[str]:
    """Marks that are told apart only by what they are."""
    decimal, thousands = csv.get("decimal", "."), csv.get("thousands")
    if decimal == csv.get("delimiter", ","):
        yield f"{name}.csv.decimal: {decimal!r} is the delimiter as well; a file written so cannot be told apart"
    if thousands is not None and thousands in (decimal, csv.get("delimiter", ",")):
        yield f"{name}.csv.thousands: {thousands!r} is the decimal mark or the delimiter as well; correct one"
    for mark, value in (("delimiter", csv.get("delimiter")), ("decimal", decimal), ("thousands", thousands)):
        if isinstance(value, str) and (value.isalnum() or value in _OF_NUMBERS.get(mark, "")):
            yield f"{name}.csv.{mark}: {value!r} is part of numbers or names; write a mark that stands in neither"


def _path_mistakes(name: str, path: str) -> Iterator[str]:
    """A placeholder that nothing fills in would be looked for as it stands."""
    for left in re.findall(r"\{[^{}]*\}?|\}", path.replace("{day}", "")):
        yield f"{name}.path: {left!r} is filled in by nothing; the only placeholder is {{day}}"
