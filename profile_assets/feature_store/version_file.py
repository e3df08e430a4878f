"""One version of the lookups as one SQLite file: written once, then only ever read.

A bucket is a row, with a checksum, since SQLite itself sees neither a flipped bit nor, where a file was cut short, the
zeros that it reads instead. A bucket without users has a row too: a row that is not there is damage, no missing user.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from profile_assets.errors import CorruptError, DiskError, StorageError
from profile_assets.feature_store.buckets import Record, bucket_number, deal, decode_rows, find, num_buckets, pieces
from profile_assets.feature_store.versions import Pace, Version

SUFFIX = ".sqlite"
_TABLES = """
create table version (json text not null, parts integer not null);
create table buckets (
    key integer primary key, crc integer not null, lengths blob not null, ids blob not null, vals blob not null
);
"""
_COLUMNS = "crc, lengths, ids, vals"
_REDO = "publish its day again"
_DISK_ERRORS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}
_FOR_A_PERSON = {
    sqlite3.SQLITE_FULL: "free some space on that disk, then publish the day again",
    sqlite3.SQLITE_READONLY: "make that folder writable for this user, then publish the day again",
    sqlite3.SQLITE_PERM: "make that folder writable for this user, then publish the day again",
}

Buffer = bytes | memoryview


def write_version(path: Path, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None:
    """Write a version to a path that nobody reads yet."""
    with _sqlite_errors(path), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # The file is flushed before it gets its name, so it needs no journal.
        for pragma in ("page_size = 8192", "journal_mode = off", "synchronous = off"):
            connection.execute(f"pragma {pragma}")
        connection.executescript(_TABLES)
        connection.execute("begin")
        parts = _fill(connection, num_buckets(version.rows), rows, pace)
        connection.execute("insert into version values (?, ?)", (json.dumps(version.to_json()), parts))
        connection.execute("commit")


def _fill(connection: sqlite3.Connection, count: int, rows: Iterable[pa.RecordBatch], pace: Pace) -> int:
    """Every bucket of every block, in the order of their keys, so that the file grows at its end; how many blocks."""
    parts, is_empty = 1, np.ones(count, dtype=bool)
    for part, buckets in enumerate(deal(rows, count)):
        parts = part + 1
        is_empty[[one.number for one in buckets]] = False
        for piece in pieces(buckets, pace.piece_rows):
            _insert(
                connection, [(one.number + part * count, one.lengths.tobytes(), one.ids, one.values) for one in piece]
            )
            pace.loaded(sum(len(one.lengths) for one in piece))
    _insert(connection, [(number, b"", b"", b"") for number in np.flatnonzero(is_empty).tolist()])
    return parts


def _insert(connection: sqlite3.Connection, buckets: Iterable[tuple[int, Buffer, Buffer, Buffer]]) -> None:
    connection.executemany(
        "insert into buckets values (?, ?, ?, ?, ?)", [(key, _crc(*columns), *columns) for key, *columns in buckets]
    )


@dataclass(frozen=True, kw_only=True)
class VersionFile:
    """A version's file, open to read; `parts` is how many blocks its users were dealt in. One reader at a time."""

    path: Path
    version: Version
    parts: int
    connection: sqlite3.Connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """FileNotFoundError where there is none, CorruptError where it is damaged."""
        if not path.exists():
            raise FileNotFoundError(path)
        with _sqlite_errors(path):
            # It never changes, so no lock is asked for. Which thread reads is the store's business.
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            with contextlib.ExitStack() as on_error:
                on_error.callback(connection.close)
                _require_size(connection, path)
                version, parts = _version_row(connection, path)
                on_error.pop_all()
        return cls(path=path, version=version, parts=parts, connection=connection)

    def close(self) -> None:
        self.connection.close()

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Every user, in buckets.ROW_SCHEMA."""
        with _sqlite_errors(self.path):
            cursor = self.connection.execute(f"select {_COLUMNS} from buckets order by key")
            while found := cursor.fetchmany(1024):
                buckets = [self._whole(row) for row in found]
                lengths, ids, values = (b"".join(column) for column in zip(*buckets, strict=True))
                yield decode_rows(_split(lengths, ids), values)

    def read(self, users: Sequence[str]) -> dict[str, Record]:
        """Those of the users who are there."""
        with _sqlite_errors(self.path):
            found = ((user, self._find(user.encode())) for user in users)
            return {user: record for user, record in found if record is not None}

    def _find(self, user: bytes) -> Record | None:
        count = num_buckets(self.version.rows)
        number = bucket_number(user, count)
        rows = [self._row(number + part * count) for part in range(self.parts)]
        if not any(rows):
            raise CorruptError(f"{self.path} lacks the bucket {number}", remedy=_REDO)
        found = (find(*self._whole(row), user=user) for row in rows if row)
        return next((record for record in found if record is not None), None)

    def _row(self, key: int) -> tuple[int, bytes, bytes, bytes] | None:
        cursor = self.connection.execute(f"select {_COLUMNS} from buckets where key = ?", (key,))
        row: tuple[int, bytes, bytes, bytes] | None = cursor.fetchone()
        return row

    def _whole(self, row: tuple[int, bytes, bytes, bytes]) -> tuple[bytes, bytes, bytes]:
        crc, *columns = row
        if _crc(*columns) != crc:
            raise CorruptError(f"{self.path} is damaged", remedy=_REDO)
        return row[1:]


def _crc(*columns: Buffer) -> int:
    crc = 0
    for column in columns:
        crc = zlib.crc32(column, crc)
    return crc


def _split(lengths: bytes, ids: bytes) -> pa.Array:
    """Ids that lie one after another, as a text column."""
    sizes = np.frombuffer(lengths, "<u4")
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] != len(ids):
        raise CorruptError("ids online are cut", remedy="publish the newest day again")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(ids)]
    return pa.Array.from_buffers(pa.large_string(), len(sizes), buffers).cast(pa.string())


def _require_size(connection: sqlite3.Connection, path: Path) -> None:
    pages, size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    if pages * size != path.stat().st_size:
        raise CorruptError(f"{path} was cut", remedy=_REDO)


def _version_row(connection: sqlite3.Connection, path: Path) -> tuple[Version, int]:
    row = connection.execute("select json, parts from version").fetchone()
    if row is None:
        raise CorruptError(f"{path} does not say what it is", remedy=_REDO)
    return Version.from_json(json.loads(row[0])), row[1]


@contextlib.contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """What SQLite says of a full or failing disk, and of a damaged file, as errors of ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _FOR_A_PERSON:
            raise DiskError(f"{path}: {error}", remedy=_FOR_A_PERSON[code]) from error
        if code in _DISK_ERRORS:
            raise StorageError(f"{path}: {error}", remedy="check that disk, then publish the day again") from error
        raise CorruptError(f"{path} is damaged: {error}", remedy=_REDO) from error
    except json.JSONDecodeError as error:
        raise CorruptError(f"{path} is damaged: {error}", remedy=_REDO) from error
