"""Every implementation of the two stores, made ready for one suite each: what differs is how a test may interfere."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from profile_assets.errors import CorruptError
from profile_assets.feature_store.buckets import ROW_SCHEMA, Record
from profile_assets.feature_store.online_redis import connect
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.versions import Held, OnlineStore, Pace, Switch, Version
from profile_assets.storage.keys import key_set_of
from profile_assets.storage.layout import Layout

DAY = dt.date(2026, 1, 5)
ONE_DAY = dt.timedelta(days=1)


def rows_of(scores: dict[str, float]) -> list[pa.RecordBatch]:
    """The rows of some users, in batches of 100."""
    columns = [
        pa.array(list(scores), pa.string()),
        pa.array(list(scores.values()), pa.float32()),
        pa.repeat("full", len(scores)),
    ]
    return pa.table(columns, schema=ROW_SCHEMA).to_batches(max_chunksize=100)


class FakeStore:
    """The interface in a dictionary. `elapsed` is moved by the test."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Version, dict[str, Record]]] = {}
        self.until: dict[str, dt.datetime] = {}
        self.pointer: Version | None = None
        self.now = dt.datetime(2026, 1, 6, tzinfo=dt.UTC)

    def where(self) -> str:
        return "the fake"

    def build(self, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None:
        found = {}
        for batch in rows:
            ids, scores, routes = (column.to_pylist() for column in batch.columns)
            found |= {
                user: Record(score=score, route=route) for user, score, route in zip(ids, scores, routes, strict=True)
            }
            pace.loaded(batch.num_rows)
        self.kept[version.id] = version, found

    def held(self) -> list[Held]:
        until = {name: self.until.get(name) for name in self.kept}
        return [Held(version=self.kept[name][0], until=at) for name, at in until.items() if at is None or at > self.now]

    def live(self) -> Version | None:
        return self.pointer

    def serves(self) -> Version | None:
        if self.pointer is not None and self.pointer.id not in self.kept:
            raise CorruptError(f"{self.pointer.id} is gone", remedy="publish the newest day again")
        return self.pointer

    def scan(self, version: Version) -> Iterator[pa.RecordBatch]:
        records = self.kept[version.id][1]
        columns = [list(records), [one.score for one in records.values()], [one.route for one in records.values()]]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, ROW_SCHEMA.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)

    def read(self, ids: Sequence[str]) -> tuple[Version, dict[str, Record]] | None:
        live = self.pointer
        if live is None:
            return None
        records = self.kept[live.id][1]
        return live, {user: records[user] for user in ids if user in records}

    def advance(self, version: Version) -> Switch:
        before = self.pointer
        if before is None or before.day <= version.day:
            self.pointer = version
            self.until.pop(version.id, None)
        return Switch(before=before, after=self.pointer)

    def replace(self, seen: Version, to: Version | None) -> bool:
        if self.pointer is None or self.pointer.id != seen.id:
            return False
        self.pointer = to
        if to is not None:
            self.until.pop(to.id, None)
        return True

    def retire(self, version: Version, keep_s: int) -> None:
        if self.pointer is None or self.pointer.id != version.id:
            self.until[version.id] = self.now + dt.timedelta(seconds=keep_s)

    def remove(self, version: Version) -> None:
        if self.pointer is None or self.pointer.id != version.id:
            self.kept.pop(version.id, None)
            self.until.pop(version.id, None)

    def sweep(self) -> None:
        for name in [name for name, at in self.until.items() if at <= self.now]:
            self.remove(self.kept[name][0])


@dataclass(kw_only=True)
class Harness:
    """A store, and what a test may do behind its back.

    `lapse` lets every lifetime end. `residue` lists what lies about of versions. `damage` takes one user out of a
    version that is whole. `abandon` leaves what a killed build of a version leaves. `lose` makes a whole one vanish.
    """

    name: str
    store: OnlineStore
    again: Callable[[], OnlineStore]
    neighbour: Callable[[], OnlineStore]
    lapse: Callable[[], None]
    residue: Callable[[], set[str]]
    damage: Callable[[Version], None]
    abandon: Callable[[Version], object]
    lose: Callable[[Version], object]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1000)))

    def version(self, scores: dict[str, float], *, day: dt.date = DAY, **changed: Any) -> Version:
        number = next(self.numbers)
        values: dict[str, Any] = {
            "id": f"{day}-{number:03d}",
            "day": day,
            "content": f"c{number}",
            "rows": len(scores),
            "keys": key_set_of(pa.array(list(scores), pa.string())),
            "bundle_id": f"b-{number}",
            "published_at": dt.datetime(2026, 1, 6, 2, number % 60, tzinfo=dt.UTC),
            "expires_at": dt.datetime(2026, 1, 9, tzinfo=dt.UTC),
        }
        return Version(**{**values, **changed})

    def built(self, scores: dict[str, float], **changed: Any) -> Version:
        version = self.version(scores, **changed)
        self.store.build(version, rows_of(scores), Pace())
        return version

    def live(self, scores: dict[str, float], **changed: Any) -> Version:
        version = self.built(scores, **changed)
        assert self.store.advance(version).after == version
        return version


@pytest.fixture(params=["fake", "sqlite", pytest.param("redis", marks=pytest.mark.service("redis"))])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    if request.param == "redis":
        return redis_harness(request.getfixturevalue("redis_url"))
    return sqlite_harness(tmp_path / "30 % of #1?") if request.param == "sqlite" else fake_harness()


def fake_harness() -> Harness:
    store = FakeStore()

    def lapse() -> None:
        store.now += dt.timedelta(days=1000)

    def damage(version: Version) -> None:
        store.kept[version.id][1].popitem()

    return Harness(
        name="fake",
        store=store,
        again=lambda: store,
        neighbour=FakeStore,
        lapse=lapse,
        residue=lambda: set(store.kept),
        damage=damage,
        abandon=lambda _: None,
        lose=lambda version: store.kept.pop(version.id),
    )


def sqlite_harness(root: Path) -> Harness:
    layout = Layout(root=root, name="purchase_30d")
    now = [dt.datetime(2026, 1, 6, tzinfo=dt.UTC)]

    def new() -> SqliteStore:
        return SqliteStore(layout, clock=lambda: now[0])

    def lapse() -> None:
        now[0] += dt.timedelta(days=1000)

    def residue() -> set[str]:
        return {path.stem for path in layout.online.glob("versions/*")}

    def damage(version: Version) -> None:
        path = layout.online / "versions" / f"{version.id}.sqlite"
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        with sqlite3.connect(copy) as connection:
            connection.execute("delete from buckets where key = (select max(key) from buckets)")
        connection.close()
        copy.replace(path)

    def abandon(version: Version) -> None:
        folder = layout.staging("online", version.day)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{version.id}.sqlite").write_bytes(b"half")
        (layout.online / "versions").mkdir(parents=True, exist_ok=True)
        (layout.online / "versions" / f"{version.id}.sqlite").write_bytes(b"SQLite format 3\0 and no more")

    return Harness(
        name="sqlite",
        store=new(),
        again=new,
        neighbour=lambda: SqliteStore(Layout(root=root, name="risk")),
        lapse=lapse,
        residue=residue,
        damage=damage,
        abandon=abandon,
        lose=lambda version: (layout.online / "versions" / f"{version.id}.sqlite").unlink(),
    )


def redis_harness(url: str) -> Harness:
    from redis import Redis

    client = Redis.from_url(url)
    client.flushall()

    def lapse() -> None:
        for key in list(client.scan_iter()):
            if client.ttl(key) >= 0:
                client.delete(key)

    def residue() -> set[str]:
        keys = [key.decode() for key in client.scan_iter("profile_assets:{purchase_30d}:*")]
        named = {name.decode() for name in client.hkeys("profile_assets:{purchase_30d}:versions")}
        return named | {key.split(":")[2] for key in keys if key.count(":") == 3}

    def damage(version: Version) -> None:
        buckets = client.scan_iter(f"profile_assets:{{purchase_30d}}:{version.id}:[0-9]*")
        client.delete(next(iter(buckets)))

    def abandon(version: Version) -> None:
        client.hset("profile_assets:{purchase_30d}:versions", version.id, "2")
        client.hset(f"profile_assets:{{purchase_30d}}:{version.id}:1", "a", b"12345")

    return Harness(
        name="redis",
        store=connect("purchase_30d", url),
        again=lambda: connect("purchase_30d", url),
        neighbour=lambda: connect("risk", url),
        lapse=lapse,
        residue=residue,
        damage=damage,
        abandon=abandon,
        lose=lambda version: client.delete(f"profile_assets:{{purchase_30d}}:{version.id}:meta"),
    )
