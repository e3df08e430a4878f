"""The embedded store: one SQLite file a version, never written to once it has its name, and one small file that points.

The pointer is swapped by a rename, under the lock that the profile's days share; it also says until when replaced
versions are kept. Readers take no lock. A file that a reader has open outlives its removal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from profile_assets.errors import CorruptError, DiskError, StorageError
from profile_assets.feature_store.buckets import Bucket, Record, bucket_number, deal, decode_rows, find, num_buckets
from profile_assets.feature_store.versions import Held, Pace, Switch, Version
from profile_assets.storage.atomic import empty_folder, locked, remove_file, replace_file, write_json
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

_TABLES = """
create table version (json text not null, parts integer not null);
create table buckets (
    key integer primary key, crc integer not null, lengths blob not null, ids blob not null, vals blob not null
);
"""
_COLUMNS = "crc, lengths, ids, vals"
_SUFFIX = ".sqlite"
_DISK_ERRORS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}
_FOR_A_PERSON = {
    sqlite3.SQLITE_FULL: "free some space on that disk, then publish the day again",
    sqlite3.SQLITE_READONLY: "make that folder writable for this user, then publish the day again",
    sqlite3.SQLITE_PERM: "make that folder writable for this user, then publish the day again",
}
_TRIES = 10

Buffer = bytes | memoryview


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, kw_only=True)
class _State:
    """The pointer file."""

    live: Version | None = None
    until: dict[str, dt.datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Open:
    """A version's file, open to read; `parts` is how often its buckets were dealt."""

    path: Path
    version: Version
    parts: int
    connection: sqlite3.Connection


class SqliteStore:
    """See `versions.OnlineStore`."""

    def __init__(self, layout: Layout, *, clock: Callable[[], dt.datetime] = _now) -> None:
        self._pointer = layout.online / "live.json"
        self._versions = layout.online / "versions"
        self._layout = layout
        self._records = layout.scratch("records")
        self._lock_file = layout.shared_lock("online")
        self._clock = clock
        self._guard = threading.Lock()
        self._seen: tuple[tuple[int, int, int], _State] | None = None
        self._open: _Open | None = None

    def where(self) -> str:
        return str(self._pointer.parent)

    def build(self, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None:
        path = empty_folder(self._layout.staging("online", version.day)) / f"{version.id}{_SUFFIX}"
        with _sqlite_errors(path), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # Nobody reads the file before it is whole and flushed, so it needs no journal.
            for pragma in ("page_size = 8192", "journal_mode = off", "synchronous = off"):
                connection.execute(f"pragma {pragma}")
            connection.executescript(_TABLES)
            _fill(connection, version, rows, pace)
        replace_file(path, self._path(version.id))

    def held(self) -> list[Held]:
        state, now = self._state(), self._clock()
        found = []
        for path in self._files():
            until = state.until.get(path.name.removesuffix(_SUFFIX))
            with contextlib.suppress(FileNotFoundError, CorruptError):  # removed just now; or damaged, so not whole
                if until is None or until > now:
                    found.append(Held(version=self._describe(path), until=until))
        return found

    def live(self) -> Version | None:
        return self._state().live

    def scan(self, version: Version) -> Iterator[pa.RecordBatch]:
        path = self._path(version.id)
        with _gone_is_corrupt(path), contextlib.closing(_connect(path)) as connection, _sqlite_errors(path):
            _require_size(connection, path)
            cursor = connection.execute(f"select {_COLUMNS} from buckets order by key")
            while found := cursor.fetchmany(1024):
                whole = [_whole(row, path) for row in found]
                lengths, ids, values = (b"".join(column) for column in zip(*whole, strict=True))
                yield decode_rows(_split(lengths, ids), values)

    def read(self, ids: Sequence[str]) -> tuple[Version, dict[str, Record]] | None:
        with self._guard:
            for _ in range(_TRIES):
                live = self._state().live
                if live is None:
                    return None
                try:
                    opened = self._opened(live)
                except FileNotFoundError:  # replaced and removed since the pointer was read
                    continue
                with _sqlite_errors(self._path(live.id)):
                    return live, _read(opened, ids)
        raise CorruptError(f"{self.where()} points to a file that is not there", remedy="publish the newest day again")

    def advance(self, version: Version) -> Switch:
        with self._alone():
            state = self._state()
            if state.live is not None and state.live.day > version.day:
                return Switch(before=state.live, after=state.live)
            self._point(state, version)
            return Switch(before=state.live, after=version)

    def replace(self, seen: Version, to: Version | None) -> bool:
        with self._alone():
            state = self._state()
            if state.live is None or state.live.id != seen.id:
                return False
            self._point(state, to)
            return True

    def retire(self, version: Version, keep_s: int) -> None:
        with self._alone():
            state = self._state()
            if state.live is None or state.live.id != version.id:
                until = {**state.until, version.id: self._clock() + dt.timedelta(seconds=keep_s)}
                self._write(dataclasses.replace(state, until=until))

    def remove(self, version: Version) -> None:
        with self._alone():
            self._remove(self._state(), version.id)

    def sweep(self) -> None:
        with self._alone():
            now = self._clock()
            gone = {name for name, until in self._state().until.items() if until <= now}
            gone |= {path.name.removesuffix(_SUFFIX) for path in self._files() if not self._is_whole(path)}
            for name in gone:
                self._remove(self._state(), name)

    def _remove(self, state: _State, name: str) -> None:
        if state.live is not None and state.live.id == name:
            return
        remove_file(self._path(name))
        if name in state.until:
            self._write(dataclasses.replace(state, until={key: at for key, at in state.until.items() if key != name}))

    def _point(self, state: _State, to: Version | None) -> None:
        if to is not None and not self._path(to.id).exists():
            raise StorageError(f"the version {to.id} is gone", remedy=f"publish {to.day} again")
        until = {name: at for name, at in state.until.items() if to is None or name != to.id}
        self._write(_State(live=to, until=until))

    def _files(self) -> list[Path]:
        return sorted(self._versions.glob(f"*{_SUFFIX}"))

    def _is_whole(self, path: Path) -> bool:
        try:
            self._describe(path)
        except CorruptError:
            return False
        return True

    def _path(self, name: str) -> Path:
        return self._versions / f"{name}{_SUFFIX}"

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        return locked(self._lock_file, what=f"the pointer {self._pointer}")

    def _state(self) -> _State:
        """The pointer file, parsed again only when it is another one."""
        try:
            stat = os.stat(self._pointer)  # noqa: PTH116  a lookup's most frequent call; Path.stat is half as fast
        except FileNotFoundError:
            return _State()
        mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if self._seen is None or self._seen[0] != mark:
            # Between stat and read the file may be swapped: then the mark is old, and the next call reads again.
            self._seen = mark, _parse_state(self._pointer)
        return self._seen[1]

    def _write(self, state: _State) -> None:
        value = {
            "format": FORMAT,
            "live": None if state.live is None else state.live.to_json(),
            "until": {name: at.isoformat() for name, at in state.until.items()},
        }
        write_json(self._pointer, value, staging=self._records)

    def _describe(self, path: Path) -> Version:
        with contextlib.closing(_connect(path)) as connection, _sqlite_errors(path):
            return _version_row(connection, path)[0]

    def _opened(self, live: Version) -> _Open:
        """The live version's file, kept open while it stays live."""
        if self._open is None or self._open.version.id != live.id:
            path = self._path(live.id)
            connection = _connect(path)
            with _sqlite_errors(path):
                _require_size(connection, path)
                version, parts = _version_row(connection, path)
            if self._open is not None:
                self._open.connection.close()
            self._open = _Open(path=path, version=version, parts=parts, connection=connection)
        return self._open


def _fill(connection: sqlite3.Connection, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None:
    """Every bucket of every block, in the order of their keys, so that the file grows at its end only.

    A bucket without users gets a row too: a row that is not there is damage, and no missing user.
    """
    count = num_buckets(version.rows)
    parts, is_empty = 1, np.ones(count, dtype=bool)
    connection.execute("begin")
    for part, buckets in enumerate(deal(rows, count)):
        parts = part + 1
        is_empty[[one.number for one in buckets]] = False
        for piece in _pieces(buckets, pace.piece_rows):
            _insert(
                connection, [(one.number + part * count, one.lengths.tobytes(), one.ids, one.values) for one in piece]
            )
            pace.loaded(sum(len(one.lengths) for one in piece))
    _insert(connection, [(number, b"", b"", b"") for number in np.flatnonzero(is_empty).tolist()])
    connection.execute("insert into version values (?, ?)", (json.dumps(version.to_json()), parts))
    connection.execute("commit")


def _insert(connection: sqlite3.Connection, buckets: Iterable[tuple[int, Buffer, Buffer, Buffer]]) -> None:
    connection.executemany(
        "insert into buckets values (?, ?, ?, ?, ?)", [(key, _crc(*columns), *columns) for key, *columns in buckets]
    )


def _crc(*columns: Buffer) -> int:
    """SQLite itself would not see a flipped bit."""
    crc = 0
    for column in columns:
        crc = zlib.crc32(column, crc)
    return crc


def _pieces(buckets: list[Bucket], rows: int) -> Iterator[list[Bucket]]:
    """The buckets in pieces of about that many rows."""
    bounds = itertools.accumulate(len(bucket.lengths) for bucket in buckets)
    for _, group in itertools.groupby(zip(bounds, buckets, strict=True), key=lambda pair: (pair[0] - 1) // rows):
        yield [bucket for _, bucket in group]


def _read(opened: _Open, ids: Sequence[str]) -> dict[str, Record]:
    count = num_buckets(opened.version.rows)
    found: dict[str, Record] = {}
    for user in ids:
        key = user.encode()
        for bucket in _buckets(opened, bucket_number(key, count), count):
            record = find(*bucket, user=key)
            if record is not None:
                found[user] = record
                break
    return found


def _buckets(opened: _Open, number: int, count: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The bucket of that number in each of the blocks that have it."""
    rows = [
        opened.connection.execute(f"select {_COLUMNS} from buckets where key = ?", (number + part * count,)).fetchone()
        for part in range(opened.parts)
    ]
    if not any(rows):
        raise CorruptError(f"{opened.path} lacks the bucket {number}", remedy="publish its day again")
    return (_whole(row, opened.path) for row in rows if row)


def _whole(row: tuple[int, bytes, bytes, bytes], path: Path) -> tuple[bytes, bytes, bytes]:
    crc, *columns = row
    if _crc(*columns) != crc:
        raise CorruptError(f"{path} is damaged", remedy="publish its day again")
    return row[1:]


def _require_size(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite reads zeros where a file was cut short."""
    pages, size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    if pages * size != path.stat().st_size:
        raise CorruptError(f"{path} was cut", remedy="publish its day again")


def _split(lengths: bytes, ids: bytes) -> pa.Array:
    """Ids that lie one after another, as a text column."""
    sizes = np.frombuffer(lengths, "<u4")
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] != len(ids):
        raise CorruptError("ids online are cut", remedy="publish the newest day again")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(ids)]
    return pa.Array.from_buffers(pa.large_string(), len(sizes), buffers).cast(pa.string())


def _connect(path: Path) -> sqlite3.Connection:
    """Open to read, unlocked: the file never changes. FileNotFoundError where there is none."""
    if not path.exists():
        raise FileNotFoundError(path)
    with _sqlite_errors(path):
        # One reader at a time is seen to by the store's guard, whichever thread it comes from.
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _version_row(connection: sqlite3.Connection, path: Path) -> tuple[Version, int]:
    row = connection.execute("select json, parts from version").fetchone()
    if row is None:
        raise CorruptError(f"{path} does not say what it is", remedy="publish its day again")
    return Version.from_json(json.loads(row[0])), row[1]


def _parse_state(path: Path) -> _State:
    value = read_json(path)
    try:
        live = None if value["live"] is None else Version.from_json(value["live"])
        return _State(live=live, until={name: dt.datetime.fromisoformat(at) for name, at in value["until"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(
            f"{path} lacks or bends {error}", remedy="remove that file and publish the newest day again"
        ) from error


@contextlib.contextmanager
def _gone_is_corrupt(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptError(f"{path} is not there", remedy="publish its day again") from error


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
        raise CorruptError(f"{path} is damaged: {error}", remedy="publish its day again") from error
    except json.JSONDecodeError as error:
        raise CorruptError(f"{path} is damaged: {error}", remedy="publish its day again") from error
