"""The text of a query that a profile gives: its `:day` bound as a parameter, its columns chosen, its rows in order."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SKIPPED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
_DAY = re.compile(rf"({_SKIPPED})|(?<!:):day\b", re.DOTALL)
_ORDER = re.compile(rf"{_SKIPPED}|(\border\s+by\b)", re.DOTALL | re.IGNORECASE)


def asks_for_day(query: str) -> bool:
    """Whether `:day` stands in the query, outside quotes and comments."""
    return any(match[1] is None for match in _DAY.finditer(query))


def with_parameter(query: str, mark: str) -> str:
    """The query with `mark` in place of each `:day`."""
    return _DAY.sub(lambda match: match[1] or mark, query)


def selecting(query: str, columns: Sequence[str], *, ordered_by: str | None = None) -> str:
    """These expressions of the query's rows. In the query's own order, or in that of a column where it has none: the
    same rows should come in the same order every time.
    """
    has_order = any(match[1] for match in _ORDER.finditer(query))
    order = "" if ordered_by is None or has_order else f"\nORDER BY {quoted(ordered_by)}"
    return f"SELECT {', '.join(columns)} FROM (\n{query.strip().rstrip(';')}\n) AS day_rows{order}"


def quoted(name: str) -> str:
    """A column's name as SQL."""
    return '"' + name.replace('"', '""') + '"'
