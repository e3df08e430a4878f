"""A day's rows from PostgreSQL as Arrow batches, by ADBC: exact, in one snapshot, read-only, the day bound.

`numeric` comes as text and is cast by the contract, never by way of a float. Types that Arrow has no exact word for
(uuid, json, enums, intervals) come as the text that the server writes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from profile_assets.errors import SourceError
from profile_assets.users.query_errors import failed_query, no_connection, url_of
from profile_assets.users.query_text import quoted, selecting, with_parameter
from profile_assets.users.source import SqlSettings

FETCH_ROWS = 65_536
_DECIMAL_DIGITS = 38
_NUMBERS = ("int2", "int4", "int8", "float4", "float8")
_OTHERS = ("bool", "date", "timestamp", "timestamptz", "text", "varchar", "bpchar", "bytea")
_AS_THEY_ARE = frozenset([*_NUMBERS, *(f"_{name}" for name in _NUMBERS), *_OTHERS])  # _int2: an array of int2


class PostgresQuery:
    """One query over one connection; `schema` holds all of its columns."""

    def __init__(self, connection: Any, settings: SqlSettings, day: dt.date) -> None:
        self._connection = connection
        self._variable = settings.url_env
        self._query = with_parameter(settings.query, "$1")
        self._day = day
        with self._errors(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            found = cursor.adbc_execute_schema(selecting(self._query, ["*"]))
        self._types = {field.name: _type_of(field) for field in found}
        self.schema = pa.schema([(field.name, _kind(field)) for field in found])

    def batches(self, columns: Sequence[str], ordered_by: str | None) -> Iterator[pa.RecordBatch]:
        """These columns of every row, each name among `schema` once."""
        wanted = [self._expression(name) for name in columns]
        query = selecting(self._query, wanted, ordered_by=ordered_by)
        with self._errors(), self._connection.cursor() as cursor:
            cursor.execute("SET LOCAL cursor_tuple_fraction = 1")
            cursor.execute(f"DECLARE day_rows NO SCROLL CURSOR FOR {query}", parameters=(self._day,))
        while (table := self._fetch()).num_rows:
            yield from table.combine_chunks().to_batches()

    def count_rows(self) -> int:
        with self._errors(), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(selecting(self._query, ["count(*)"]), parameters=(self._day,))
            return int(cursor.fetchone()[0])

    def _fetch(self) -> pa.Table:
        with self._errors(), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})  # COPY knows no FETCH
            cursor.execute(f"FETCH FORWARD {FETCH_ROWS} FROM day_rows")
            return cursor.fetch_arrow_table()

    def _expression(self, name: str) -> str:
        return quoted(name) if self._types[name] in _AS_THEY_ARE else f"{quoted(name)}::text AS {quoted(name)}"

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        import adbc_driver_manager

        failed = None
        try:
            yield
        except adbc_driver_manager.Error as error:
            failed = failed_query(self._variable, error)
        if failed is not None:
            raise failed from None


@contextlib.contextmanager
def postgres_query(settings: SqlSettings, day: dt.date) -> Iterator[PostgresQuery]:
    """The query, open. Raises SourceError, or StorageError where another try may help."""
    connection = _connect(settings.url_env)
    try:
        yield PostgresQuery(connection, settings, day)
    finally:
        connection.close()


def _connect(variable: str) -> Any:
    try:
        import adbc_driver_manager
        import adbc_driver_postgresql.dbapi as postgres
    except ImportError as error:
        raise SourceError(
            "the driver of PostgreSQL is not installed", remedy="pip install 'profile-assets[postgres]'"
        ) from error
    url, failed = url_of(variable), None
    try:
        return postgres.connect(url)
    except adbc_driver_manager.Error as error:
        failed = no_connection(variable, error)
    raise failed


def _type_of(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"POSTGRESQL:type", b"").decode())


def _kind(field: pa.Field) -> pa.DataType:
    """The Arrow type that stands for a column's type when it is compared with the contract's."""
    name = _type_of(field)
    if name == "numeric":
        modifier = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - 4
        scale = modifier & 0x7FF if modifier >= 0 else 0
        return pa.decimal128(_DECIMAL_DIGITS, scale if scale <= _DECIMAL_DIGITS else 0)
    return field.type if name in _AS_THEY_ARE else pa.string()
