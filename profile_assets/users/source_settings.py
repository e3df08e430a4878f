"""What a source is, in settings: where a table's days lie and how they are written. Reading them is in `source.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Format = Literal["parquet", "csv", "ndjson", "sql"]


@dataclass(frozen=True, kw_only=True)
class CsvSettings:
    """How numbers and missing values are written in CSV. `null_values` never apply to the id."""

    delimiter: str = ","
    decimal: str = "."
    thousands: str | None = None
    null_values: tuple[str, ...] = ("",)


@dataclass(frozen=True, kw_only=True)
class SqlSettings:
    """A query whose rows are a day's table. `url_env` names the variable that holds the database's URL; `copies` is a
    folder in which a day's rows are kept while they are read.
    """

    query: str
    url_env: str
    copies: Path


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """A source of one table a day: files, or (format "sql") a query.

    The day is ready once `success_marker` (such as `_SUCCESS`) lies in its folder, and once no file of it has changed
    for `stable_for_s`, nor the number of the query's rows.
    """

    path: str
    format: Format
    hive_key: str = "day"
    csv: CsvSettings = CsvSettings()
    s3_endpoint: str | None = None
    success_marker: str | None = None
    stable_for_s: float = 0.0
    sql: SqlSettings | None = None


_STABLE_FOR = re.compile(r"stable_for ([1-9]\d*)([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What must be seen before a day is read: a marker, or files that lie still, or nothing."""

    success_marker: str | None = None
    stable_for_s: float = 0.0


def parse_ready(text: str) -> Ready:
    """ "_SUCCESS", "stable_for 5m" (s, m or h) or "none"; ValueError for any other text."""
    if text in ("_SUCCESS", "none"):
        return Ready(success_marker=None if text == "none" else text)
    if match := _STABLE_FOR.fullmatch(text):
        return Ready(stable_for_s=int(match[1]) * _SECONDS[match[2]])
    raise ValueError(f'{text!r} is none of "_SUCCESS", "stable_for 5m" and "none"')
