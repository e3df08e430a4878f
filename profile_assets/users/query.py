"""A table in a database as a day's source: the rows that a query gives for `:day`, copied once and then read.

The URL comes from the environment variable that the profile names: postgresql://... or sqlite:////absolute/path.db.
The digest of a day is that of its rows, whatever their order.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError, SourceError
from profile_assets.storage import atomic
from profile_assets.storage.records import digest_of
from profile_assets.users.contract import Contract
from profile_assets.users.postgres import postgres_query
from profile_assets.users.query_copy import open_copy
from profile_assets.users.query_errors import url_of
from profile_assets.users.source import SourceDay, SourceFile, SqlSettings
from profile_assets.users.sqlite import PREFIX, name_of, sqlite_query

_WHOLE_ID = pa.decimal128(38, 0)


class OpenQuery(Protocol):
    """A query on an open database. `schema`: its columns with the types that the contract is compared with."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, columns: list[str], ordered_by: str | None) -> Iterator[pa.RecordBatch]: ...

    def count_rows(self) -> int: ...


@contextlib.contextmanager
def copied(settings: SqlSettings, contract: Contract, day: dt.date) -> Iterator[SourceDay]:
    """The day's rows in a file, which is removed on leaving. SourceError where there is not one row."""
    with contextlib.ExitStack() as held:
        with atomic.disk_errors("cannot prepare", settings.copies):
            path = held.enter_context(atomic.own_file(settings.copies, f"{day}.parquet"))
        yield _copy(settings, contract, day, path)


def digest_of_query(settings: SqlSettings, contract: Contract, day: dt.date) -> str:
    """The digest of the day's rows as they are now."""
    digest = _RowDigest()
    with _opened(settings, contract, day) as query:
        for batch in _rows(query, settings, contract):
            digest.add(batch)
    return digest.of(settings)


def count_day(settings: SqlSettings, day: dt.date) -> int:
    """How many rows the query gives."""
    with _opened(settings, Contract(id="", columns=()), day) as query:
        return query.count_rows()


def _copy(settings: SqlSettings, contract: Contract, day: dt.date, path: Path) -> SourceDay:
    digest = _RowDigest()
    with _opened(settings, contract, day) as query:
        batches = _rows(query, settings, contract)
        first = next(batches, None)
        if first is None and not _is_refused(query.schema, contract):
            raise SourceError(
                f"{name_of(settings)} gave no row for {day}",
                remedy="write that day's rows, or correct source.query in the profile",
            )
        schema = pa.schema([(contract.id, pa.string())]) if first is None else first.schema
        with open_copy(path, schema, query.schema) as sink:
            for batch in itertools.chain(() if first is None else (first,), batches):
                digest.add(batch)
                sink.write(batch)
    file = SourceFile(
        name="query", path=name_of(settings), size_bytes=path.stat().st_size, modified_ns=0, opened_at=str(path)
    )
    return SourceDay(day=day, files=(file,), ignored=(), digest=digest.of(settings))


@contextlib.contextmanager
def _opened(settings: SqlSettings, contract: Contract, day: dt.date) -> Iterator[OpenQuery]:
    scheme = url_of(settings.url_env).partition(":")[0]
    if scheme in ("postgresql", "postgres"):
        with postgres_query(settings, day) as postgres:
            yield postgres
    elif scheme == "sqlite":
        with sqlite_query(settings, contract, day) as sqlite:
            yield sqlite
    else:
        raise SourceError(
            f"the URL in ${settings.url_env} is that of no database known here",
            remedy=f"write postgresql://user:password@host/database or {PREFIX}/absolute/path.db into it",
        )


def _rows(query: OpenQuery, settings: SqlSettings, contract: Contract) -> Iterator[pa.RecordBatch]:
    """The contract's columns of every row; nothing of a table that the contract will refuse anyhow."""
    if _is_refused(query.schema, contract):
        return
    names = [name for name in (contract.id, *contract.names) if name in query.schema.names]
    is_number = pa.types.is_decimal(query.schema.field(contract.id).type)
    start = 1
    for batch in query.batches(names, contract.id):
        if is_number:
            ids = _whole_ids(batch.column(0), settings, contract.id, start)
            batch = batch.set_column(0, contract.id, ids)
        yield batch
        start += batch.num_rows


def _is_refused(schema: pa.Schema, contract: Contract) -> bool:
    counts = Counter(schema.names)
    return counts[contract.id] != 1 or any(counts[name] > 1 for name in contract.names)


def _whole_ids(ids: pa.Array, settings: SqlSettings, column: str, first: int) -> pa.Array:
    """A database's numeric ids, which come as text, as exact whole numbers."""
    is_odd = pc.invert(pc.fill_null(pc.match_substring_regex(ids, r"\A-?[0-9]{1,38}\z"), True))
    if pc.any(is_odd).as_py():
        place = pc.index(is_odd, True).as_py()
        raise ContractError(
            f"{name_of(settings)}: the ids in {column!r} are no whole numbers; row {first + place} has "
            f"{ids[place].as_py()!r}",
            remedy="select whole numbers or text as the id",
        )
    return ids.cast(_WHOLE_ID)


class _RowDigest:
    """The sum modulo 2^128 of the md5 of each row, with their count: the same rows in any order, and no others."""

    def __init__(self) -> None:
        self._rows = 0
        self._sum = 0
        self._names: list[str] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._names = batch.schema.names
        self._rows += batch.num_rows
        parts = [_with_length(_as_bytes(array)) for array in batch.columns]
        rows = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
        for row in rows.to_pylist():  # rows are long: numpy's md5 is for ids that fill one block
            self._sum += int.from_bytes(hashlib.md5(row, usedforsecurity=False).digest(), "big")

    def of(self, settings: SqlSettings) -> str:
        return digest_of(["sql", settings.query, self._names, self._rows, f"{self._sum % (1 << 128):032x}"])


def _with_length(values: pa.Array) -> pa.Array:
    """Each value behind its length, so that no two rows read alike; null is a mark of its own."""
    length = pc.binary_length(values).cast(pa.string()).cast(pa.large_binary())
    marked = pc.binary_join_element_wise(length, values, pa.scalar(b":", pa.large_binary()))
    return pc.fill_null(marked, pa.scalar(b"-", pa.large_binary()))


def _as_bytes(array: pa.Array) -> pa.Array:
    """A column's values as bytes that tell them apart."""
    if pa.types.is_list(array.type):
        texts = pc.fill_null(array.flatten().cast(pa.string()), "null")
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = pc.cumulative_sum(lengths.cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        array = pc.binary_join(pa.ListArray.from_arrays(offsets, texts, mask=pc.is_null(array)), ",")
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    is_text = pa.types.is_string(array.type) or pa.types.is_binary(array.type)
    return (array if is_text else array.cast(pa.string())).cast(pa.large_binary())
