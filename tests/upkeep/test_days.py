"""Where days stand, whatever state their records are in."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from profile_assets.feature_store.live import ask
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.quality.standing import standing
from profile_assets.storage.atomic import locked
from profile_assets.storage.holders import holder
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.upkeep.days import day_states
from profile_assets.upkeep.prune import prune
from profile_assets.upkeep.settings import Retention

DAY = dt.date(2026, 2, 27)


def state(layout, day=DAY):
    (found,) = day_states(layout, [day], standing(layout, ask(layout, OnlineSettings())))
    return found


def test_a_day_of_which_there_is_nothing(layout):
    found = state(layout)
    assert {one.presence for one in found.stages.values()} == {"none"}
    assert (found.verdict, found.offline, found.online, found.bundle_id) == ("none", "none", "none", None)


def test_a_published_day(days, layout, now):
    days.published(DAY)
    found = state(layout)
    seen = {name: (one.presence, one.rows) for name, one in found.stages.items()}
    assert seen == dict.fromkeys((RAW_USERS, USER_SHARDS, USER_SCORES), ("there", 3))
    assert (found.verdict, found.offline, found.online, found.bundle_id) == ("passed", "done", "done", "b-1")
    assert found.published_at == now
    assert found.locks == {}
    assert json.loads(json.dumps(found.to_json()))["stages"][RAW_USERS] == {"state": "there", "rows": 3}


def test_a_stopped_a_pruned_and_a_withdrawn_day(days, layout, ago, now):
    days.run(DAY, result="fail")
    assert state(layout).verdict == "stopped"
    assert "min_rows" in state(layout).stopped_by
    days.published(ago(60), ago(2), ago(1))
    prune(layout, Retention(), today=now.date(), now=now, busy={})
    assert state(layout, ago(60)).stages[RAW_USERS].presence == "pruned"
    withdraw(layout, ago(1), why="in cents", by="ada", now=now)
    assert (state(layout, ago(1)).withdrawn, state(layout, ago(1)).offline) == ("in cents", "withdrawn")


@pytest.mark.parametrize("what", ["publish_record", "verdict"])
def test_a_damaged_record_is_shown_and_stops_nothing(days, layout, what):
    days.published(DAY)
    getattr(layout, what)(DAY).write_text("{")
    layout.manifest(USER_SHARDS, DAY).write_text("{")
    found = state(layout)
    assert "damaged" in (found.verdict, found.offline)
    assert found.stages[USER_SHARDS].presence == "damaged"


def test_a_table_that_lost_a_day_is_damage(days, layout):
    days.published(DAY)
    layout.offline_part(DAY).unlink()
    assert state(layout).offline == "damaged"


def test_lookups_that_are_lost_are_not_called_done(days, layout, ago):
    days.published(ago(2), ago(1))
    shutil.rmtree(layout.online)
    assert state(layout, ago(1)).online == "lost"
    assert state(layout, ago(2)).online == "done"  # it was replaced long ago


def test_lookups_that_cannot_be_asked_are_not_called_done(days, layout):
    days.published(DAY)
    away = ask(layout, OnlineSettings(store="redis", url_env="NOT_SET"))
    (found,) = day_states(layout, [DAY], standing(layout, away))
    assert (found.offline, found.online) == ("done", "unknown")


def test_who_holds_a_lock_is_told_and_nobody_who_does_not(layout):
    path = layout.day_lock(USER_SCORES, DAY)
    assert holder(path) is None
    with locked(path, what="it"):
        found = state(layout).locks[USER_SCORES]
        assert (found.pid, found.is_alive) == (os.getpid(), True)
        assert str(found) == f"process {os.getpid()} (alive)"
    assert holder(path) is None
    with locked(path, what="it", is_shared=True):
        assert str(holder(path)) == "readers"
    with locked(path, what="it"):
        path.write_text("999999999\n")
        assert str(holder(path)) == "process 999999999 (not on this machine)"


@pytest.fixture
def as_a_reader():
    """Be somebody who may only read, whoever runs the tests; the locks are where that one comes to."""
    with tempfile.TemporaryDirectory() as folder:
        open_to_all = Layout(root=Path(folder), name="risk")
        Path(folder).chmod(0o755)
        with locked(open_to_all.day_lock(USER_SCORES, DAY), what="it"):
            pass
        yield open_to_all


@contextlib.contextmanager
def only_reading(path, mode):
    was_root = os.geteuid() == 0
    path.chmod(mode)
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


def test_a_lock_is_looked_at_by_somebody_who_may_only_read_it(as_a_reader):
    path = as_a_reader.day_lock(USER_SCORES, DAY)
    with only_reading(path, 0o444):
        assert holder(path) is None
    with locked(path, what="it"), only_reading(path, 0o444):
        assert holder(path).pid == os.getpid()


def test_a_lock_that_cannot_even_be_read_is_called_unknown(as_a_reader):
    path = as_a_reader.day_lock(USER_SCORES, DAY)
    with only_reading(path, 0o000):
        assert str(holder(path)) == "unknown: the lock cannot be looked at"
    path.chmod(0o644)
