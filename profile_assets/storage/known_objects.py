"""What a working copy knows of its objects on S3: the ETag of each when it last looked, and whether it holds a copy.

One SQLite file beside the copy, so that runs, sensors and commands of one machine share it. It can be lost: everything
is then looked at, and fetched, anew.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from profile_assets.errors import CorruptError, StorageError
from profile_assets.storage.objects import Listed

_TABLES = """
CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, etag TEXT NOT NULL, size INTEGER NOT NULL, held TEXT);
CREATE TABLE IF NOT EXISTS footers (key TEXT PRIMARY KEY, etag TEXT NOT NULL, footer TEXT NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class Known:
    """An object as it was last seen; `is_held`: the copy here is of that very object."""

    etag: str
    size_bytes: int
    is_held: bool


class KnownObjects:
    """The table of them, in the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self, below: str = "") -> dict[str, Known]:
        with self._opened() as db:
            rows = db.execute(
                "SELECT key, etag, size, held FROM objects WHERE substr(key, 1, ?) = ?", (len(below), below)
            )
            return {key: _known(etag, size, held) for key, etag, size, held in rows}

    def get(self, key: str) -> Known | None:
        with self._opened() as db:
            row = db.execute("SELECT etag, size, held FROM objects WHERE key = ?", (key,)).fetchone()
            return None if row is None else _known(*row)

    def hold(self, key: str, etag: str, size_bytes: int) -> None:
        """The copy here is of that object from now on."""
        with self._opened() as db:
            db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (key, etag, size_bytes, etag))

    def see(self, key: str, listed: Listed, *, before: Known | None) -> bool:
        """There is another object than `before` under that key; False where somebody here was quicker to say so."""
        with self._opened() as db:
            values = {"key": key, "etag": listed.etag, "size": listed.size_bytes, "before": before and before.etag}
            if before is None:
                done = db.execute("INSERT OR IGNORE INTO objects VALUES (:key, :etag, :size, NULL)", values)
            else:
                done = db.execute(
                    "UPDATE objects SET etag = :etag, size = :size WHERE key = :key AND etag = :before", values
                )
            return done.rowcount == 1

    def forget(self, key: str) -> None:
        """There is no object under that key."""
        with self._opened() as db:
            db.execute("DELETE FROM objects WHERE key = ?", (key,))

    def footer(self, key: str, etag: str) -> str | None:
        with self._opened() as db:
            row = db.execute("SELECT footer FROM footers WHERE key = ? AND etag = ?", (key, etag)).fetchone()
            return None if row is None else str(row[0])

    def keep_footer(self, key: str, etag: str, footer: str) -> None:
        with self._opened() as db:
            db.execute("INSERT OR REPLACE INTO footers VALUES (?, ?, ?)", (key, etag, footer))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as db:
                db.executescript(_TABLES)
                with db:
                    yield db
        except sqlite3.OperationalError as error:
            raise StorageError(f"{self._path}: {error}", remedy="see to that disk, then try again") from error
        except sqlite3.DatabaseError as error:
            raise CorruptError(
                f"{self._path} is no SQLite file any more: {error}", remedy="remove it: it is made anew"
            ) from error


def _known(etag: str, size: int, held: str | None) -> Known:
    return Known(etag=etag, size_bytes=size, is_held=held == etag)
