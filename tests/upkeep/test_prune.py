"""What is old goes, and nothing that anybody still needs."""

from __future__ import annotations

import datetime as dt
import os

import pytest

from profile_assets.errors import DataError, GateError, LockedError, StorageError
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.publish_online import rollback
from profile_assets.feature_store.read import read_day
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.quality.baseline import find_baselines
from profile_assets.storage import atomic, pruned
from profile_assets.storage.layout import RAW_USERS, STAGES, USER_SCORES, USER_SHARDS
from profile_assets.storage.pruned import data_files, pruned_at
from profile_assets.storage.published import read_record
from profile_assets.storage.stages import Staged, commit, current, require
from profile_assets.upkeep import prune as pruning
from profile_assets.upkeep.settings import Retention
from profile_assets.users.land import columns_before

RETENTION = Retention(raw_days=14, shards_days=14, scores_days=30)
SOURCES = STAGES[:3]


@pytest.fixture
def prune(layout, now):
    def run(*, busy=None, retention=RETENTION):
        return pruning.prune(layout, retention, today=now.date(), now=now, busy=busy or {})

    return run


def gone(layout, day) -> set[str]:
    """The stages whose data is no longer there."""
    return {stage for stage in SOURCES if pruned_at(layout.stage(stage, day)) is not None}


def make_old(path, now, days=40):
    """As if everything below was written so long ago."""
    moment = (now - dt.timedelta(days=days)).timestamp()
    for one in [path, *path.rglob("*")]:
        os.utime(one, (moment, moment))


def test_each_stage_goes_when_its_own_time_is_over(days, layout, ago, prune):
    days.published(ago(31), ago(30), ago(15), ago(14), ago(2), ago(1))
    done = prune()
    assert {day: gone(layout, day) for day in (ago(31), ago(30), ago(15), ago(14))} == {
        ago(31): {RAW_USERS, USER_SHARDS, USER_SCORES},
        ago(30): {RAW_USERS, USER_SHARDS},
        ago(15): {RAW_USERS, USER_SHARDS},
        ago(14): set(),
    }
    assert done.kept == {}
    assert done.size_bytes > 0
    assert {removal.stage for removal in done.removals} == {"quarantine", RAW_USERS, USER_SHARDS, USER_SCORES}
    assert prune().removals == ()


def test_what_is_said_of_a_day_stays_and_readers_keep_it(days, layout, ago, prune):
    days.published(ago(60), ago(2), ago(1))
    before = read_day(layout, ago(60))
    digests = {stage: current(layout, stage, ago(60)).digest for stage in SOURCES}
    prune()
    assert read_day(layout, ago(60)).equals(before)
    assert {stage: current(layout, stage, ago(60)).digest for stage in SOURCES} == digests
    assert layout.verdict(ago(60)).exists()
    assert layout.publish_record(ago(60)).exists()


def test_whoever_wants_the_data_is_told_that_it_was_pruned(days, layout, ago, prune):
    days.published(ago(60), ago(2), ago(1))
    prune()
    for stage in SOURCES:
        with pytest.raises(DataError, match=rf"{stage} of {ago(60)} was pruned on 2026-03-01.*backfill .* --again"):
            require(layout, stage, ago(60))


def test_a_pruned_day_can_be_made_and_published_again(days, layout, ago, prune):
    days.published(ago(60), ago(2), ago(1))
    prune()
    days.run(ago(60), ["a", "b", "c", "d"])
    days.publish(ago(60))
    assert gone(layout, ago(60)) == set()
    assert read_day(layout, ago(60)).num_rows == 4


def test_baselines_and_columns_of_pruned_days_are_still_found(days, layout, ago, prune):
    days.published(*(ago(back) for back in range(40, 30, -1)))
    prune(retention=Retention(raw_days=1, shards_days=1, scores_days=1))
    later = ago(32) + dt.timedelta(days=1)
    assert find_baselines(layout, later).newest.rows == 3
    assert find_baselines(layout, ago(31)).weekday.day == ago(38)
    assert columns_before(layout, later) is None  # these manifests have none, and can be read


def test_the_two_newest_published_days_stay_however_old_they_are(days, layout, ago, prune):
    days.published(ago(92), ago(91), ago(90))
    assert set(prune().kept) == {ago(91), ago(90)}
    assert gone(layout, ago(92)) == set(SOURCES)
    assert gone(layout, ago(91)) == gone(layout, ago(90)) == set()
    withdraw(layout, ago(90), why="bad", by="ada", now=dt.datetime.now(dt.UTC))
    assert require(layout, USER_SCORES, ago(91)).rows == 3


def test_the_day_that_lookups_serve_stays_after_a_rollback(days, layout, ago, prune, now):
    days.published(ago(93), ago(92), ago(91), ago(90))
    for _ in range(3):
        rollback(layout, SqliteStore(layout), OnlineSettings(), now=now)
    assert SqliteStore(layout).live().day == ago(93)
    kept = prune().kept
    assert kept[ago(93)] == "lookups serve it"
    assert kept[ago(92)] == "its publication is pending: online"
    assert gone(layout, ago(93)) == gone(layout, ago(92)) == set()


def test_a_day_with_a_pending_target_stays(days, layout, ago, prune):
    class Away:
        """A store that cannot be reached."""

        def __getattr__(self, name):
            def away(*_, **__):
                raise StorageError("it is away", remedy="wait")

            return away

    for back in (60, 2, 1):
        days.run(ago(back))
    with pytest.raises(StorageError, match="online it is pending"):
        days.publish(ago(60), online=Away())
    for back in (2, 1):
        days.publish(ago(back), has_lookups=False)
    assert prune().kept == {ago(60): "its publication is pending: online"}
    assert gone(layout, ago(60)) == set()


def test_a_day_that_a_run_works_on_or_that_is_locked_stays(days, layout, ago, prune):
    days.published(ago(62), ago(61), ago(60), ago(2), ago(1))
    with atomic.locked(layout.day_lock(USER_SHARDS, ago(61)), what="it", is_shared=True):
        kept = prune(busy={ago(62): "1f2e3d4c"}).kept
    assert kept[ago(62)] == "run 1f2e3d4c works on it"
    assert "user_shards of 2025-12-30 is held by process" in kept[ago(61)]
    assert gone(layout, ago(62)) == gone(layout, ago(61)) == set()
    assert gone(layout, ago(60)) == set(SOURCES)
    prune()
    assert gone(layout, ago(62)) == gone(layout, ago(61)) == set(SOURCES)


def test_an_old_day_that_was_just_made_and_is_not_published_yet_stays_a_day(days, layout, ago, now):
    days.run(ago(60))
    just_now = dt.datetime.now(dt.UTC)
    first = pruning.prune(layout, RETENTION, today=now.date(), now=just_now, busy={})
    assert "not published" in first.kept[ago(60)]
    pruning.prune(layout, RETENTION, today=now.date(), now=just_now + dt.timedelta(days=2), busy={})
    assert gone(layout, ago(60)) == set(SOURCES)


def test_only_one_pruning_at_a_time(layout, prune):
    with atomic.locked(layout.shared_lock("prune"), what="it"), pytest.raises(LockedError, match="the pruning of risk"):
        prune()


def test_what_dead_runs_left_is_swept_once_it_is_old(layout, ago, prune, now):
    old, new = layout.staging(RAW_USERS, ago(60)), layout.staging(USER_SCORES, ago(61))
    scratch = layout.scratch("records") / "x.json.1-abc"
    for path in (old / "users.parquet", new / "part.parquet", scratch):
        path.parent.mkdir(parents=True)
        path.write_text("half")
    make_old(old, now)
    make_old(scratch, now)
    os.utime(scratch.parent, None)
    done = prune()
    assert not old.exists()
    assert not scratch.exists()
    assert new.exists()
    assert {removal.stage for removal in done.removals if removal.is_left_behind} == {"raw_users", "records"}


def test_a_bundle_whose_training_was_killed_is_swept_once_it_is_old_and_one_being_written_is_not(layout, prune, now):
    dead, alive = (layout.scratch("models") / atomic.unique_name("bundle") for _ in range(2))
    for folder in (dead, alive):
        (folder / "b-0123456789abcdef").mkdir(parents=True)
        (folder / "b-0123456789abcdef" / "weights.safetensors").write_bytes(b"half")
    make_old(dead, now)
    make_old(alive, now)
    (alive / "b-0123456789abcdef" / "golden.parquet").write_bytes(b"just now")
    (removal,) = prune().removals
    assert (removal.stage, removal.path, removal.is_left_behind) == ("models", dead, True)
    assert not dead.exists()
    assert alive.exists()


def test_a_plan_removes_nothing(days, layout, ago, now):
    days.published(ago(60), ago(2), ago(1))
    planned = pruning.plan(layout, RETENTION, today=now.date(), now=now, busy={})
    assert len(planned.removals) == 4
    assert gone(layout, ago(60)) == set()


def test_a_removal_that_died_half_way_is_finished_or_taken_back(days, layout, ago, prune, monkeypatch):
    days.published(ago(61), ago(60), ago(2), ago(1))

    def dies(folder):
        if folder.parent.name == RAW_USERS and pruned_at(folder) is not None:
            raise KeyboardInterrupt
        return data_files(folder)

    monkeypatch.setattr(pruned, "data_files", dies)
    with pytest.raises(KeyboardInterrupt):
        prune()
    monkeypatch.undo()
    stage, folder = RAW_USERS, layout.stage(RAW_USERS, ago(61))
    with pytest.raises(DataError, match="was pruned"):
        require(layout, stage, ago(61))
    found = Staged(folder=folder, manifest=current(layout, stage, ago(61)))  # as a rerun that finds it whole hands in
    commit(layout, ago(61), found)
    require(layout, stage, ago(61))
    prune()
    assert gone(layout, ago(61)) == set(SOURCES)


def test_a_pruned_day_still_gets_its_record_and_its_targets_back(days, layout, ago, prune):
    days.published(ago(60), ago(2), ago(1))
    prune()
    before = layout.offline_part(ago(60)).read_bytes()
    layout.publish_record(ago(60)).unlink()
    days.publish(ago(60))
    assert read_record(layout, ago(60)).targets["online"].state == "older"
    assert layout.offline_part(ago(60)).read_bytes() == before
    layout.verdict(ago(60)).unlink()
    with pytest.raises(GateError, match="was never judged"):
        days.publish(ago(60))
