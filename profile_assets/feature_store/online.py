"""Single lookups: a day is brought online whole, or not at all; and what moves the pointer besides.

A day is built as a new version that nobody reads, read back, compared with the table, and then one pointer moves.
The newest day wins: an older one never becomes live by being published. A version that was replaced is kept for a while
for `rollback`; the live one never goes by itself.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import AccountingError, CorruptError, DataError, LockedError, ProfileError
from profile_assets.feature_store.buckets import ROW_SCHEMA, Record
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.feature_store.versions import OnlineStore, Pace, Switch, Version
from profile_assets.storage.keys import KeySet, key_set_of
from profile_assets.storage.layout import Layout
from profile_assets.storage.stages import ID_COLUMN

SAMPLE_ROWS = 1000

Rows = Callable[[], Iterable[pa.RecordBatch]]


def open_online(
    layout: Layout,
    settings: OnlineSettings,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
    retries: int = 3,
) -> OnlineStore:
    """The store that the profile names. No server is asked before the first use of it; `timeout_s` is for each try."""
    if settings.store == "sqlite":
        from profile_assets.feature_store.online_sqlite import SqliteStore

        return SqliteStore(layout)
    from profile_assets.feature_store.online_redis import connect

    url = (os.environ if environment is None else environment).get(settings.url_env)
    if not url:
        raise ProfileError(
            f"{settings.url_env} is not set, and lookups of {layout.name} are to go to Redis",
            remedy=f"set {settings.url_env} to its address, such as redis://host:6379/0",
        )
    return connect(layout.name, url, timeout_s=timeout_s, retries=retries)


@dataclass(frozen=True, kw_only=True)
class Parity:
    """A version beside the table: all its ids by count and digest, and `sampled` users by value."""

    rows: int
    rows_online: int
    has_equal_keys: bool
    sampled: int
    differing: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        return self.has_equal_keys and self.rows == self.rows_online and not self.differing

    def __str__(self) -> str:
        keys = "the same users" if self.has_equal_keys else "other users"
        values = f"{len(self.differing)} of {self.sampled} sampled values differ"
        return f"{self.rows_online} online, {self.rows} in the table, {keys}; {values}"


def compare(store: OnlineStore, version: Version, rows: Rows) -> Parity:
    """Read the whole version back and hold it against the table's rows of that day."""
    wanted = _sample(rows(), version.rows)
    ids = pa.array(list(wanted), pa.string())
    keys, found = KeySet(), dict[str, Record]()
    for batch in store.scan(version):
        keys += key_set_of(batch.column(ID_COLUMN))
        found |= _records(batch.filter(pc.is_in(batch.column(ID_COLUMN), ids)))
    return Parity(
        rows=version.rows,
        rows_online=keys.count,
        has_equal_keys=keys == version.keys,
        sampled=len(wanted),
        differing=_differing(wanted, found),
    )


def spot_check(store: OnlineStore, version: Version, rows: Rows) -> tuple[str, ...]:
    """The sampled users whose lookup gives another value than the table; all of them where `version` is not live.

    Nothing is to be compared where a newer day became live meanwhile.
    """
    wanted = _sample(rows(), version.rows)
    answer = store.read(list(wanted))
    if answer is not None and answer[0].day > version.day:
        return ()
    found = answer[1] if answer is not None and answer[0].id == version.id else {}
    return _differing(wanted, found)


def _sample(rows: Iterable[pa.RecordBatch], total: int) -> dict[str, Record]:
    """Users at even distances through the day."""
    step = max(1, total // SAMPLE_ROWS)
    sample: dict[str, Record] = {}
    place = 0
    for batch in rows:
        picked = range(-place % step, batch.num_rows, step)
        sample |= _records(batch.take(pa.array(picked, pa.int64())))
        place += batch.num_rows
    return sample


def _records(batch: pa.RecordBatch) -> dict[str, Record]:
    ids, scores, routes = (batch.column(name).to_pylist() for name in ROW_SCHEMA.names)
    return {user: Record(score=score, route=route) for user, score, route in zip(ids, scores, routes, strict=True)}


def _differing(wanted: Mapping[str, Record], found: Mapping[str, Record]) -> tuple[str, ...]:
    return tuple(user for user, record in wanted.items() if found.get(user) != record)


@dataclass(frozen=True, kw_only=True)
class Brought:
    """What bringing a day online came to. `is_live` is false where a newer day is live and stays so."""

    version: Version
    switch: Switch
    parity: Parity
    is_built: bool
    seconds: float

    @property
    def is_live(self) -> bool:
        return self.switch.after is not None and self.switch.after.id == self.version.id


def bring(store: OnlineStore, version: Version, rows: Rows, *, pace: Pace, keep_s: int) -> Brought:
    """Build the version, unless a whole one of the same content is there, compare it, make it live, retire the others.

    Can be repeated after any death. AccountingError where the store does not hold what the table holds: nothing moves.
    """
    began = time.perf_counter()
    store.sweep()
    known = _known(store, version, rows)
    if known is None:
        store.build(version, rows(), pace)
        known = version, compare(store, version, rows)
    whole, parity = known
    if not parity.is_equal:
        store.remove(whole)
        raise AccountingError(
            f"{store.where()} does not hold what the table of {version.day} holds ({parity}); the old version stays",
            remedy=f"run `profile-assets publish {version.day}` again; if it happens twice, look at that store",
        )
    switch = store.advance(whole)
    _retire_others(store, keep_s)
    seconds = time.perf_counter() - began
    return Brought(version=whole, switch=switch, parity=parity, is_built=whole is version, seconds=seconds)


def _known(store: OnlineStore, version: Version, rows: Rows) -> tuple[Version, Parity] | None:
    """A whole version of the same publication that compares well, the live one first; None where one is to be built."""
    live = store.live()
    alike = [held.version for held in store.held() if held.version.content == version.content]
    for candidate in sorted(alike, key=lambda one: live is None or one.id != live.id):
        try:
            parity = compare(store, candidate, rows)
        except CorruptError:  # about to be built anew, which is its remedy
            continue
        if parity.is_equal:
            return candidate, parity
    return None


def _retire_others(store: OnlineStore, keep_s: int) -> None:
    live = store.live()
    for held in store.held():
        if held.until is None and (live is None or held.version.id != live.id):
            store.retire(held.version, keep_s)


def rollback(store: OnlineStore, *, keep_s: int) -> Switch:
    """Make the version before the live one live again. DataError where there is none."""
    live, older = to_step_back(store)
    step_back(store, live, older)
    store.retire(live, keep_s)
    return Switch(before=live, after=older)


def to_step_back(store: OnlineStore) -> tuple[Version, Version]:
    """The live version, and the one before it. DataError where there is none."""
    live = store.live()
    if live is None:
        raise DataError(f"nothing is live in {store.where()}", remedy="publish a day first")
    older = _newest_before(store, live)
    if older is None:
        raise DataError(
            f"{store.where()} has no version before that of {live.day}",
            remedy=f"publish an earlier day once {live.day} is withdrawn, or run {live.day} again with better data",
        )
    return live, older


def step_back(store: OnlineStore, live: Version, older: Version) -> None:
    """Make `older` live in the place of `live`. LockedError where that is live no more."""
    if not store.replace(live, older):
        raise LockedError("another process switched just now", remedy="look at what is live, then try again")


def take_back(store: OnlineStore, day: dt.date) -> Switch:
    """Take a day out: where it is live, the newest version before it becomes so, or none. Its versions are removed."""
    before = live = store.live()
    while live is not None and live.day == day:
        store.replace(live, _newest_before(store, live, but=day))  # if another one was quicker, look again
        live = store.live()
    for held in store.held():
        if held.version.day == day:
            store.remove(held.version)
    return Switch(before=before, after=live)


def _newest_before(store: OnlineStore, live: Version, *, but: dt.date | None = None) -> Version | None:
    """Anything newer than the live version was rolled back, so it is none to go to."""
    older = [held.version for held in store.held() if held.version.age < live.age and held.version.day != but]
    return max(older, key=lambda version: version.age, default=None)
