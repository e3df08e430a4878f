"""The embedded store: one SQLite file a version, never written to once it has its name, and one small file that points.

The pointer is swapped by a rename, under the lock that the profile's days share; it also says until when replaced
versions are kept. Readers take no lock. A file that a reader has open outlives its removal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import CorruptError, StorageError
from profile_assets.feature_store.buckets import Record
from profile_assets.feature_store.version_file import SUFFIX, VersionFile, write_version
from profile_assets.feature_store.versions import Held, Pace, Switch, Version
from profile_assets.storage.atomic import empty_folder, locked, remove_file, replace_file, write_json
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

_TRIES = 10


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, kw_only=True)
class _State:
    """The pointer file."""

    live: Version | None = None
    until: dict[str, dt.datetime] = field(default_factory=dict)


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
        self._open: VersionFile | None = None

    def where(self) -> str:
        return str(self._pointer.parent)

    def build(self, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None:
        path = empty_folder(self._layout.staging("online", version.day)) / f"{version.id}{SUFFIX}"
        write_version(path, version, rows, pace)
        replace_file(path, self._path(version.id))

    def held(self) -> list[Held]:
        state, now = self._state(), self._clock()
        found = []
        for path in self._files():
            until = state.until.get(path.name.removesuffix(SUFFIX))
            with contextlib.suppress(FileNotFoundError, CorruptError):  # removed just now; or damaged, so not whole
                if until is None or until > now:
                    found.append(Held(version=self._describe(path), until=until))
        return found

    def live(self) -> Version | None:
        return self._state().live

    def serves(self) -> Version | None:
        live = self._state().live
        try:
            return None if live is None else self._describe(self._path(live.id))
        except FileNotFoundError as error:
            raise CorruptError(
                f"{self.where()} points to {live and live.id}, which is gone", remedy="publish the newest day again"
            ) from error

    def scan(self, version: Version) -> Iterator[pa.RecordBatch]:
        try:
            opened = VersionFile.open(self._path(version.id))
        except FileNotFoundError as error:
            raise CorruptError(f"{self._path(version.id)} is not there", remedy="publish its day again") from error
        with contextlib.closing(opened):
            yield from opened.scan()

    def read(self, ids: Sequence[str]) -> tuple[Version, dict[str, Record]] | None:
        with self._guard:
            for _ in range(_TRIES):
                live = self._state().live
                if live is None:
                    return None
                try:
                    return live, self._opened(live).read(ids)
                except FileNotFoundError:  # replaced and removed since the pointer was read
                    continue
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
            gone |= {path.name.removesuffix(SUFFIX) for path in self._files() if not self._is_whole(path)}
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
        return sorted(self._versions.glob(f"*{SUFFIX}"))

    def _is_whole(self, path: Path) -> bool:
        try:
            self._describe(path)
        except CorruptError:
            return False
        return True

    def _path(self, name: str) -> Path:
        return self._versions / f"{name}{SUFFIX}"

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
        with contextlib.closing(VersionFile.open(path)) as opened:
            return opened.version

    def _opened(self, live: Version) -> VersionFile:
        """The live version's file, kept open while it stays live."""
        if self._open is None or self._open.version.id != live.id:
            opened = VersionFile.open(self._path(live.id))
            if self._open is not None:
                self._open.close()
            self._open = opened
        return self._open


def _parse_state(path: Path) -> _State:
    value = read_json(path)
    try:
        live = None if value["live"] is None else Version.from_json(value["live"])
        return _State(live=live, until={name: dt.datetime.fromisoformat(at) for name, at in value["until"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(
            f"{path} lacks or bends {error}", remedy="remove that file and publish the newest day again"
        ) from error
