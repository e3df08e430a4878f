"""What lookups serve once a day was withdrawn or rolled back: what the table has, and records that say what is so."""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest

from profile_assets.errors import LockedError, StorageError
from profile_assets.feature_store.lookups import lookup
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.online_redis import connect
from profile_assets.feature_store.publish_online import Lookups, rollback, take_out
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


@pytest.fixture
def bring(pipeline):
    """Publishes a day whose users all have that score."""

    def bring(day, score, *, hours=0):
        pipeline.run(day, IDS, values=[score] * len(IDS))
        return pipeline.publish_all(day, now=NOW + dt.timedelta(hours=hours), export=SQLITE)

    return bring


def served(store):
    return store.live().day, lookup(store, ["a"], now=NOW)["a"].score


def online(layout, day):
    return read_record(layout, day).targets["online"].state


def withdrawn(layout, day, store):
    lookups = Lookups(store=store, settings=SQLITE.online, time_zone="UTC", clock=lambda: NOW + 9 * ONE_DAY)
    return withdraw(layout, day, why="wrong", by="ada", now=NOW, others={"online": partial(take_out, layout, lookups)})


def test_the_day_before_is_served_as_it_was_restated(bring, layout, day, store):
    bring(day - ONE_DAY, 0.25)
    bring(day, 0.5)
    bring(day - ONE_DAY, 0.75, hours=1)
    assert online(layout, day - ONE_DAY) == "older"
    withdrawn(layout, day, store)
    assert served(store) == (day - ONE_DAY, 0.75)
    assert (online(layout, day - ONE_DAY), online(layout, day)) == ("done", "withdrawn")


def test_a_day_that_came_late_is_served_once_the_newer_one_is_withdrawn(bring, layout, day, store):
    bring(day - 2 * ONE_DAY, 0.25)
    bring(day, 0.5)
    assert bring(day - ONE_DAY, 0.75).record.targets["online"].state == "older"
    withdrawn(layout, day, store)
    assert served(store) == (day - ONE_DAY, 0.75)


def test_what_a_rollback_went_to_can_be_restated(bring, layout, day, store):
    bring(day - ONE_DAY, 0.25)
    bring(day, 0.5)
    rollback(layout, store, SQLITE.online, now=NOW)
    assert bring(day - ONE_DAY, 0.75, hours=1).brought.is_live
    assert served(store) == (day - ONE_DAY, 0.75)


def test_a_withdrawal_does_not_bring_back_what_was_rolled_back(bring, layout, day, store):
    for n in range(3):
        bring(day + n * ONE_DAY, n / 4)
    for _ in range(2):
        rollback(layout, store, SQLITE.online, now=NOW)
    withdrawn(layout, day + 2 * ONE_DAY, store)
    assert served(store) == (day, 0.0)


def test_withdrawing_an_older_day_leaves_what_is_live(bring, layout, day, store):
    for n in range(3):
        bring(day + n * ONE_DAY, n / 4)
    live = store.live()
    withdrawn(layout, day + ONE_DAY, store)
    assert store.live() == live
    assert [held.version.day for held in store.held()] == [day, day + 2 * ONE_DAY]


def test_lookups_that_are_down_do_not_hold_a_withdrawal_up(bring, layout, day, store, tmp_path):
    bring(day - ONE_DAY, 0.25)
    bring(day, 0.5)
    down = connect(layout.name, f"unix://{tmp_path}/nobody.sock", retries=0)
    with pytest.raises(StorageError, match=r"withdrawn from the table; online is pending: Redis cannot be used"):
        withdrawn(layout, day, down)
    assert published_days(layout) == [day - ONE_DAY]
    assert online(layout, day) == "pending"
    withdrawn(layout, day, store)
    assert served(store) == (day - ONE_DAY, 0.25)
    assert online(layout, day) == "withdrawn"


class Switching:
    """A store that does something else in the place of a switch."""

    def __init__(self, store, instead):
        self._store, self.replace = store, instead

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_rollback_that_dies_does_not_leave_the_day_it_took_back_done(bring, layout, day, store):
    bring(day - ONE_DAY, 0.25)
    bring(day, 0.5)

    def switch_and_die(seen, to):
        store.replace(seen, to)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollback(layout, Switching(store, switch_and_die), SQLITE.online, now=NOW)
    assert served(store) == (day - ONE_DAY, 0.25)
    assert online(layout, day) == "pending"


def test_a_rollback_that_came_to_nothing_leaves_the_record_as_it_was(bring, layout, day, store):
    bring(day - ONE_DAY, 0.25)
    bring(day, 0.5)
    before = read_record(layout, day)
    with pytest.raises(LockedError):
        rollback(layout, Switching(store, lambda *_: False), SQLITE.online, now=NOW)
    assert read_record(layout, day) == before
