"""A day's rows from SQLite as Arrow batches, read-only, in one snapshot, the day bound as text (YYYY-MM-DD).

SQLite gives each value a type of its own. One pass in its own engine tells which types a column has; a column of one
type comes as that, any other as text that the contract judges value by value. Integers are exact; a number stored as
REAL is a decimal only where no digit was lost (15 of them).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from profile_assets.errors import SourceError
from profile_assets.users.contract import Contract
from profile_assets.users.ids import mixed_ids
from profile_assets.users.query_errors import failed_query, no_connection, url_of
from profile_assets.users.query_text import quoted, selecting
from profile_assets.users.source import SqlSettings

FETCH_ROWS = 8192
PREFIX = "sqlite:///"
_KINDS = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
_NUMBER = pa.decimal128(38, 0)
_EXACT_DIGITS = 15
_TWIN = re.compile(r":\d+\Z")  # what SQLite puts behind the name of a column that another one has


class SqliteQuery:
    """One query over one connection; `schema` holds all of its columns."""

    def __init__(self, connection: sqlite3.Connection, settings: SqlSettings, contract: Contract, day: dt.date) -> None:
        self._connection = connection
        self._settings = settings
        self._id = contract.id
        self._declared = {column.name: column.type for column in contract.columns}
        self._day = {"day": day.isoformat()}
        self._first_id: tuple[int, Any] | None = None

    @functools.cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, self._kind(name)) for name in self._names()])

    def batches(self, columns: Sequence[str], ordered_by: str | None) -> Iterator[pa.RecordBatch]:
        """These columns of every row, each name among `schema` once."""
        cursor = self._execute(
            selecting(self._settings.query, [quoted(name) for name in columns], ordered_by=ordered_by)
        )
        start = 1
        while rows := self._fetch(cursor):
            values = list(zip(*rows, strict=True))
            arrays = [self._array(name, one, start) for name, one in zip(columns, values, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
            start += len(rows)

    def count_rows(self) -> int:
        ((count,),) = self._fetch(self._execute(selecting(self._settings.query, ["count(*)"])))
        return int(count)

    def _names(self) -> list[str]:
        found = self._execute(selecting(self._settings.query, ["*"]) + " LIMIT 0").description
        names = [column[0] for column in found]
        return [base if (base := _TWIN.sub("", name)) in names else name for name in names]

    @functools.cached_property
    def _stored(self) -> dict[str, frozenset[str]]:
        """The types of the values that stand in each column that has a name of its own, null apart."""
        names = [name for name, times in Counter(self._names()).items() if times == 1]
        if not names:
            return {}
        asked = [f"group_concat(DISTINCT typeof({quoted(name)}))" for name in names]
        (row,) = self._fetch(self._execute(selecting(self._settings.query, asked)))
        return {
            name: frozenset((found or b"").decode().split(",")) - {"null", ""}
            for name, found in zip(names, row, strict=True)
        }

    def _kind(self, name: str) -> pa.DataType:
        """The type that stands for a column when it is compared with the contract's; null where only its values can."""
        stored, declared = self._stored.get(name, frozenset()), self._declared.get(name)
        if declared is not None and pa.types.is_boolean(declared) and stored == {"integer"}:
            return pa.bool_()
        if stored and stored <= {"integer", "real"} and (len(stored) == 2 or name == self._id):
            return pa.float64() if "real" in stored and not self._is_decimal(name) else _KINDS["integer"]
        if stored == {"real"} and self._is_decimal(name):
            return _NUMBER
        return _KINDS[next(iter(stored))] if len(stored) == 1 else pa.null()

    def _is_decimal(self, name: str) -> bool:
        return name in self._declared and bool(pa.types.is_decimal(self._declared[name]))

    def _array(self, name: str, values: Sequence[Any], first: int) -> pa.Array:
        stored, declared = self._stored[name], self._declared.get(name, pa.string())
        if name == self._id and len(stored) > 1:
            self._refuse_mixed(values, first)
        if not stored:
            return pa.nulls(len(values))
        if stored <= {"text"}:
            return pa.array(values, pa.binary()).view(pa.string())
        if stored == {"integer"} and not pa.types.is_boolean(declared):
            return pa.array(values, pa.int64())
        if stored <= {"integer", "real"} and pa.types.is_floating(declared):
            return pa.array(values, pa.float64())
        if stored == {"blob"}:
            return pa.array(values, pa.binary())
        return pa.array([_as_text(value, declared) for value in values], pa.binary()).view(pa.string())

    def _refuse_mixed(self, values: Sequence[Any], first: int) -> None:
        """ContractError naming the first row whose id is of another type than the day's first."""
        for row, value in enumerate(values, start=first):
            if value is None:
                continue
            if self._first_id is None:
                self._first_id = (row, value)
            elif type(value) is not type(self._first_id[1]):
                raise mixed_ids(
                    self._id,
                    name_of(self._settings),
                    row,
                    f"{value!r}, and row {self._first_id[0]} {self._first_id[1]!r}",
                )

    def _execute(self, query: str) -> sqlite3.Cursor:
        with self._errors():
            return self._connection.execute(query, self._day)

    def _fetch(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        with self._errors():
            return cursor.fetchmany(FETCH_ROWS)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        failed = None
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            failed = failed_query(self._settings.url_env, error)
        if failed is not None:
            raise failed from None


def name_of(settings: SqlSettings) -> str:
    """What people know the source by."""
    return f"the query on ${settings.url_env}"


@contextlib.contextmanager
def sqlite_query(settings: SqlSettings, contract: Contract, day: dt.date) -> Iterator[SqliteQuery]:
    """The query, open. Raises SourceError, or StorageError where another try may help."""
    connection = _connect(settings.url_env)
    try:
        yield SqliteQuery(connection, settings, contract, day)
    finally:
        connection.close()


def _connect(variable: str) -> sqlite3.Connection:
    path = Path(unquote(url_of(variable).removeprefix(PREFIX)))
    if not path.is_absolute():
        raise SourceError(
            f"the path of the SQLite database of ${variable} is not absolute",
            remedy=f"write {PREFIX}/absolute/path.db into {variable}: four slashes in all",
        )
    failed = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
        connection.text_factory = bytes
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # the snapshot is taken by the first read
        return connection
    except sqlite3.Error as error:
        failed = no_connection(variable, error)
    raise failed


def _as_text(value: Any, declared: pa.DataType) -> bytes | None:
    """A value as text that casts to `declared` only where it is one: text that is none stays in quotes."""
    if value is None:
        return None
    if isinstance(value, bytes):
        may_be_text = pa.types.is_string(declared) or pa.types.is_temporal(declared) or pa.types.is_decimal(declared)
        return value if may_be_text else b'"' + value + b'"'
    if isinstance(value, float) and pa.types.is_decimal(declared):
        digits = repr(value).lstrip("-0.").replace(".", "").rstrip("0")
        return repr(value).encode() + (b"" if len(digits) <= _EXACT_DIGITS else b" (a float)")
    return repr(value).encode()
