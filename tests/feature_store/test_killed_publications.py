"""A publication that is killed between any two of its steps, while readers of both stores look on without a pause.

The child replaces a published day by other users and scores, and dies by SIGKILL at the point named. Readers only ever
see all of the old or all of the new, before, during and after; publishing again completes it and leaves nothing over.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.read import read_day
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.published import read_record

NOW = dt.datetime(2026, 1, 6, 2, 30, tzinfo=dt.UTC)
OLD = {f"user-{n}": 0.25 for n in range(500)} | {"deleted": 0.25}
NEW = {f"user-{n}": 0.5 for n in range(500)} | {"late": 0.5}

CHILD = """
import datetime as dt, os, signal, sys
from pathlib import Path
from profile_assets.feature_store import offline, delta, online, online_redis, online_sqlite, versions
from profile_assets.feature_store import publish, publish_online
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.layout import Layout

root, table, lookups, point = sys.argv[1:]

def die(*args, **keywords):
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name):
    setattr(owner, name, die)

def after(owner, name):
    call = getattr(owner, name)
    setattr(owner, name, lambda *args, **keywords: die(call(*args, **keywords)))

Table = {"parquet": offline.ParquetTable, "delta": delta.DeltaLake}[table]
Store = {"sqlite": online_sqlite.SqliteStore, "redis": online_redis.RedisStore}[lookups]
{
    "before the table's commit": lambda: before(Table, "replace"),
    "after the table's commit": lambda: after(Table, "replace"),
    "before the build": lambda: before(Store, "build"),
    "inside the build": lambda: after(versions.Pace, "loaded"),
    "after the build": lambda: after(Store, "build"),
    "before the switch": lambda: before(Store, "advance"),
    "after the switch": lambda: after(Store, "advance"),
    "before the old version is retired": lambda: before(Store, "retire"),
    "before the record says done": lambda: before(publish_online, "tell"),
}[point]()
publish.publish(
    Layout(root=Path(root), name="purchase_30d"),
    dt.date(2026, 1, 5),
    time_zone="Europe/Berlin",
    clock=lambda: dt.datetime(2026, 1, 6, 3, tzinfo=dt.UTC),
    export=ExportSettings(offline=table, online=OnlineSettings(store=lookups)),
)
"""

POINTS = {
    "before the table's commit": ("old", "old"),
    "after the table's commit": ("new", "old"),
    "before the build": ("new", "old"),
    "inside the build": ("new", "old"),
    "after the build": ("new", "old"),
    "before the switch": ("new", "old"),
    "after the switch": ("new", "new"),
    "before the old version is retired": ("new", "new"),
    "before the record says done": ("new", "new"),
}
"""What readers of the table and of the lookups see once the child is dead."""

TARGETS = [("parquet", "sqlite"), pytest.param(("delta", "redis"), marks=pytest.mark.service("redis"))]


def seen_in_table(layout, day):
    table = read_day(layout, day, columns=["user_id", "score"]).to_pydict()
    return name_of(dict(zip(table["user_id"], table["score"], strict=True)))


def seen_online(store):
    """All users at once, as one lookup of many."""
    _, records = store.read([*NEW, "deleted"])
    return name_of({user: record.score for user, record in records.items()})


def name_of(scores):
    return {"old": scores == OLD, "new": scores == NEW}


@pytest.fixture(params=TARGETS, ids="-".join)
def export(request, monkeypatch):
    table, lookups = request.param
    if lookups == "redis":
        url = request.getfixturevalue("redis_url")
        monkeypatch.setenv("PROFILE_REDIS_URL", url)
        from redis import Redis

        Redis.from_url(url).flushall()
    return ExportSettings(offline=table, online=OnlineSettings(store=lookups))


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_publication_shows_the_old_or_the_new_and_can_be_completed(pipeline, layout, day, export, point):
    pipeline.run(day, list(OLD), values=list(OLD.values()))
    pipeline.publish(day, export=export)
    pipeline.run(day, list(NEW), values=list(NEW.values()))
    store = open_online(layout, export.online)
    is_over = threading.Event()

    def look_on(look):
        looks = [look()]
        while not is_over.is_set():
            looks.append(look())
        return looks

    with ThreadPoolExecutor(2) as pool:
        reader = open_online(layout, export.online)
        looking = [
            pool.submit(look_on, lambda: seen_in_table(layout, day)),
            pool.submit(look_on, lambda: seen_online(reader)),
        ]
        try:
            assert kill_at(point, layout, export) == -signal.SIGKILL
        finally:
            is_over.set()
        looks = [look for looked in looking for look in looked.result()]
    assert all(sum(look.values()) == 1 for look in looks)
    table, lookups = POINTS[point]
    assert (seen_in_table(layout, day)[table], seen_online(store)[lookups]) == (True, True)

    done = pipeline.publish_all(day, now=NOW + dt.timedelta(hours=1), export=export)
    assert {name: target.state for name, target in read_record(layout, day).targets.items()} == {
        "offline": "done",
        "online": "done",
    }
    assert (seen_in_table(layout, day)["new"], seen_online(store)["new"]) == (True, True)
    assert (done.differing, done.brought.parity.is_equal) == ((), True)
    kept = {held.version.id: held.until is None for held in store.held()}
    assert [name for name, is_for_good in kept.items() if is_for_good] == [store.live().id]


def kill_at(point, layout, export):
    arguments = [str(layout.root), export.offline, export.online.store, point]
    return subprocess.run([sys.executable, "-c", CHILD, *arguments], env=dict(os.environ), check=False).returncode
