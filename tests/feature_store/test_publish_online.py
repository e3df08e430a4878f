"""Publishing to two targets: what the record says of each, what may fail between them, and how it is completed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from profile_assets.errors import DataError, GateError, PermanentError, StorageError
from profile_assets.feature_store import publish as publishing
from profile_assets.feature_store.lookups import lookup
from profile_assets.feature_store.online import open_online, take_back
from profile_assets.feature_store.online_redis import connect
from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.publish_online import rollback
from profile_assets.feature_store.read import newest_day, read_day
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.storage.published import published_days, read_record

IDS = ["a", "b", "0", "-1", "Zoë"]
ONE_DAY = dt.timedelta(days=1)
NOW = dt.datetime(2026, 1, 6, 2, 30, 0, 123456, tzinfo=dt.UTC)
SQLITE = ExportSettings(online=OnlineSettings())


@pytest.fixture
def store(layout):
    return open_online(layout, SQLITE.online)


def states(layout, day):
    return {name: target.state for name, target in read_record(layout, day).targets.items()}


def look(store, user, now=NOW):
    return lookup(store, [user], now=now)[user]


def test_a_day_is_published_to_both_targets(pipeline, layout, day, store):
    pipeline.run(day, IDS, values=[n / 8 for n in range(len(IDS))])
    done = pipeline.publish_all(day, export=SQLITE)
    assert states(layout, day) == {"offline": "done", "online": "done"}
    assert (done.brought.is_built, done.brought.is_live, done.differing) == (True, True, ())
    assert done.brought.parity.is_equal
    assert {user: look(store, user).score for user in IDS} == {user: n / 8 for n, user in enumerate(IDS)}
    assert look(store, "zz").state == "missing"


def test_what_cannot_be_looked_up_is_told(pipeline, day, store):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=SQLITE)
    for user in (0, None, b"a"):
        with pytest.raises(DataError, match="and ids are text"):
            lookup(store, ["a", user], now=NOW)
    with pytest.raises(DataError, match="the one text"):
        lookup(store, "ab", now=NOW)
    with pytest.raises(PermanentError, match="has no time zone"):
        lookup(store, ["a"], now=NOW.replace(tzinfo=None))
    assert look(store, "\ud83d").state == "missing"


def test_a_value_expires_hours_after_the_end_of_its_day_in_the_profiles_zone(pipeline, day, store):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=ExportSettings(online=OnlineSettings(expires_hours=30)))
    ends = dt.datetime(2026, 1, 5, 23, tzinfo=dt.UTC) + dt.timedelta(hours=30)
    assert look(store, "a").expires_at == ends
    assert look(store, "a", ends - dt.timedelta(seconds=1)).state == "found"
    assert look(store, "a", ends).state == "expired"


def test_the_same_day_again_builds_and_writes_nothing(pipeline, layout, day):
    pipeline.run(day, IDS)
    first = pipeline.publish_all(day, export=SQLITE)
    files = {path: path.stat().st_ino for path in layout.online.rglob("*.sqlite")}
    again = pipeline.publish_all(day, now=NOW + ONE_DAY, export=SQLITE)
    assert again.record == first.record
    assert (again.brought.is_built, again.brought.version) == (False, first.brought.version)
    assert {path: path.stat().st_ino for path in layout.online.rglob("*.sqlite")} == files


def test_a_changed_day_replaces_its_values_and_its_deleted_users(pipeline, day, store):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=SQLITE)
    pipeline.run(day, ["a", "late"], values=[0.75, 0.5])
    done = pipeline.publish_all(day, now=NOW + ONE_DAY, export=SQLITE)
    assert done.brought.switch.before.day == done.brought.switch.after.day == day
    assert look(store, "a").score == 0.75
    assert look(store, "late").score == 0.5
    assert look(store, "b").state == "missing"


def test_an_old_day_goes_to_the_table_alone(pipeline, layout, day, store):
    for one in (day - ONE_DAY, day):
        pipeline.run(one, IDS)
    pipeline.publish(day, export=SQLITE)
    live = store.live()
    done = pipeline.publish_all(day - ONE_DAY, export=SQLITE)
    assert done.brought is None
    assert done.record.targets["online"].note == f"not brought online: {day} is newer"
    assert states(layout, day - ONE_DAY) == {"offline": "done", "online": "older"}
    assert store.live() == live
    assert published_days(layout) == [day - ONE_DAY, day]


def test_an_old_day_is_not_newest_even_where_the_lookups_were_lost(pipeline, layout, day, store):
    for one in (day - ONE_DAY, day):
        pipeline.run(one, IDS)
    pipeline.publish(day, export=SQLITE)
    (layout.online / "live.json").unlink()
    pipeline.publish(day - ONE_DAY, export=SQLITE)
    assert store.live() is None
    assert pipeline.publish_all(day, export=SQLITE).brought.is_live


def test_an_older_backfill_at_the_same_moment_never_becomes_current(pipeline, layout, day, store):
    days = [day + n * ONE_DAY for n in range(6)]
    for n, one in enumerate(days):
        pipeline.run(one, IDS, values=[n / 8] * len(IDS))
    start = threading.Barrier(len(days))

    def publish_one(one):
        start.wait()
        pipeline.publish(one, export=SQLITE)

    with ThreadPoolExecutor(len(days)) as pool:
        list(pool.map(publish_one, reversed(days)))
    assert store.live().day == days[-1]
    assert look(store, "a").score == 5 / 8
    assert {states(layout, one)["offline"] for one in days} == {"done"}
    assert {states(layout, one)["online"] for one in days} <= {"done", "older"}
    assert states(layout, days[-1])["online"] == "done"


@pytest.mark.parametrize("jump", [-400 * ONE_DAY, dt.timedelta(), 400 * ONE_DAY], ids=["back", "none", "ahead"])
def test_a_clock_that_jumps_neither_hides_a_changed_day_nor_makes_an_old_one_the_newest(
    pipeline, layout, day, store, jump
):
    for one in (day - ONE_DAY, day):
        pipeline.run(one, IDS, values=[0.25] * len(IDS))
        pipeline.publish(one, now=NOW, export=SQLITE)
    for one in (day, day - ONE_DAY):
        pipeline.run(one, IDS, values=[0.5] * len(IDS))
        told = pipeline.publish(one, now=NOW + jump, export=SQLITE)
        assert (told.published_at, told.is_offline_done) == (NOW + jump, True)
    assert set(read_day(layout, day)["score"].to_pylist()) == {0.5}
    assert (newest_day(layout), store.live().day, look(store, "a").score) == (day, day, 0.5)
    assert states(layout, day - ONE_DAY) == {"offline": "done", "online": "older"}
    again = pipeline.publish_all(day, now=NOW, export=SQLITE)
    assert (again.record.published_at, again.brought.is_live) == (NOW + jump, True)


def test_a_server_that_is_down_leaves_the_table_published_and_the_lookups_pending(pipeline, layout, day, tmp_path):
    pipeline.run(day, IDS)
    down = connect(layout.name, f"unix://{tmp_path}/nobody.sock", retries=1)
    with pytest.raises(
        StorageError, match=r"online it is pending: Redis cannot be used.*publish 2026-01-05` completes"
    ):
        pipeline.publish(day, export=SQLITE, online=down)
    assert states(layout, day) == {"offline": "done", "online": "pending"}
    assert sorted(read_day(layout, day)["user_id"].to_pylist()) == sorted(IDS)
    part = layout.offline_part(day)
    before = (part.stat().st_ino, part.read_bytes())
    done = pipeline.publish_all(day, now=NOW + ONE_DAY, export=SQLITE)
    assert states(layout, day) == {"offline": "done", "online": "done"}
    assert (done.record.targets["offline"].at, done.record.targets["online"].at) == (NOW, NOW + ONE_DAY)
    assert (part.stat().st_ino, part.read_bytes()) == before


def test_a_server_that_went_down_later_is_pending_again(pipeline, layout, day, tmp_path):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=SQLITE)
    down = connect(layout.name, f"unix://{tmp_path}/nobody.sock", retries=0)
    with pytest.raises(StorageError):
        pipeline.publish(day, export=SQLITE, online=down)
    assert states(layout, day) == {"offline": "done", "online": "pending"}


@pytest.mark.service("redis")
def test_the_lookups_can_lie_in_redis(pipeline, layout, day, redis_url, monkeypatch):
    monkeypatch.setenv("SOME_URL", redis_url)
    export = ExportSettings(online=OnlineSettings(store="redis", url_env="SOME_URL"))
    store = open_online(dataclasses.replace(layout, name="in_redis"), export.online)
    there = dataclasses.replace(pipeline, layout=dataclasses.replace(layout, name="in_redis"))
    there.run(day, IDS)
    done = there.publish_all(day, export=export)
    assert (done.brought.is_live, done.differing) == (True, ())
    assert look(store, "Zoë").score == pytest.approx(0.04)


def test_a_rollback_is_one_step_and_stands_in_the_record(pipeline, layout, day, store):
    for n, one in enumerate((day - ONE_DAY, day)):
        pipeline.run(one, IDS, values=[n / 8] * len(IDS))
        pipeline.publish(one, export=SQLITE)
    switch = rollback(layout, store, SQLITE.online, now=NOW + ONE_DAY)
    assert (switch.before.day, switch.after.day) == (day, day - ONE_DAY)
    assert look(store, "a").score == 0.0
    target = read_record(layout, day).targets["online"]
    assert (target.state, target.note) == ("pending", f"rolled back to {day - ONE_DAY}")
    assert pipeline.publish_all(day, export=SQLITE).brought.is_live


@pytest.mark.parametrize("offline", ["parquet", "delta"])
def test_a_withdrawn_day_leaves_both_targets_and_the_one_before_is_live_again(pipeline, layout, day, store, offline):
    export = ExportSettings(offline=offline, online=SQLITE.online)
    for n, one in enumerate((day - ONE_DAY, day)):
        pipeline.run(one, IDS, values=[n / 8] * len(IDS))
        pipeline.publish(one, export=export)
    withdraw(layout, day, why="wrong", by="ada", now=NOW, others={"online": partial(take_back, store)})
    assert states(layout, day) == {"offline": "withdrawn", "online": "withdrawn"}
    assert published_days(layout) == [day - ONE_DAY]
    assert (store.live().day, look(store, "a").score) == (day - ONE_DAY, 0.0)
    pipeline.run(day, IDS[:3], values=[0.5] * 3)
    assert pipeline.publish_all(day, export=export).brought.is_live
    assert states(layout, day) == {"offline": "done", "online": "done"}


def test_a_withdrawal_that_died_before_the_lookups_is_completed_by_the_next_publication(pipeline, layout, day, store):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=SQLITE)
    withdraw(layout, day, why="wrong", by="ada", now=NOW)
    assert states(layout, day) == {"offline": "withdrawn", "online": "done"}
    with pytest.raises(GateError, match="withdrawn by ada"):
        pipeline.publish(day, export=SQLITE)
    assert states(layout, day) == {"offline": "withdrawn", "online": "withdrawn"}
    assert store.live() is None


def test_without_lookups_there_is_nothing_online(pipeline, layout, day):
    pipeline.run(day, IDS)
    assert pipeline.publish_all(day).brought is None
    assert states(layout, day) == {"offline": "done"}
    assert not layout.online.exists()


def test_lookups_that_are_added_later_are_filled_by_publishing_again(pipeline, day, store):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    done = pipeline.publish_all(day, now=NOW + ONE_DAY, export=SQLITE)
    assert done.record.targets["offline"] == first.targets["offline"]
    assert look(store, "a").state == "found"


def test_two_score_sets_lie_apart(pipeline, layout, day, store):
    other = dataclasses.replace(pipeline, layout=dataclasses.replace(layout, name="risk"))
    for n, one in enumerate((pipeline, other)):
        one.run(day, IDS, values=[n / 2] * len(IDS))
        publish(one.layout, day, time_zone="UTC", clock=lambda: NOW, export=SQLITE)
    assert look(store, "a").score == 0.0
    assert look(open_online(other.layout, SQLITE.online), "a").score == 0.5


def test_the_lookups_of_long_ids_that_are_alike_are_asked_room_for_unpacked(pipeline, layout, day, monkeypatch):
    pipeline.run(day, [f"{n:0200d}" for n in range(2_000)])
    asked = []
    monkeypatch.setattr(publishing, "require_space", lambda _layout, _doing, needed: asked.append(needed))
    pipeline.publish(day, export=ExportSettings(online=OnlineSettings()))
    (version,) = (layout.online / "versions").glob("*.sqlite")
    assert layout.offline_part(day).stat().st_size + version.stat().st_size < asked[0]
