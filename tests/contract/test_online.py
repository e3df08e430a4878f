"""What every store of lookups does, whichever it is: whole versions, one pointer, the newest day, nothing left over."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import AccountingError, CorruptError, DataError
from profile_assets.feature_store import buckets
from profile_assets.feature_store.lookups import lookup
from profile_assets.feature_store.online import bring, compare, rollback, spot_check, take_back
from profile_assets.feature_store.versions import Pace

DAY = dt.date(2026, 1, 5)
ONE_DAY = dt.timedelta(days=1)
NOW = dt.datetime(2026, 1, 6, 12, tzinfo=dt.UTC)
MANY = {f"user-{n}": n / 8192 for n in range(1000)}
ODD_IDS = [
    "0", "-1", "", " ", "007", "7", "NA", "null", "None", "a:b", "{a}", "purchase_30d", "live", "a\0b", "a\nb", "'; --",
    '"', "%s", "*", "?", "..", "a/b", "é", "e\u0301", "用户", "👩‍👩‍👧", "\u202eabc", "\ufeffx", "x" * 55, "x" * 56,
    "ü" * 5000, "9223372036854775807",
]  # fmt: skip


def table(scores):
    return pa.RecordBatch.from_pydict(
        {"user_id": list(scores), "score": list(scores.values()), "route": ["full"] * len(scores)},
        schema=buckets.ROW_SCHEMA,
    )


def rows_of(scores):
    return lambda: [table(scores)]


def scores_of(store, ids):
    return {user: record.score for user, record in store.read(ids)[1].items()}


def scanned(store, version):
    return {row["user_id"]: row["score"] for batch in store.scan(version) for row in batch.to_pylist()}


def test_an_empty_store_has_nothing_live_and_says_so(harness):
    assert harness.store.live() is None
    assert harness.store.read(["a"]) is None
    assert harness.store.held() == []
    with pytest.raises(DataError, match="nothing is live"):
        lookup(harness.store, ["a"], now=NOW)


def test_what_is_served_is_told_and_a_live_version_that_is_lost_is_not(harness):
    assert harness.store.serves() is None
    live = harness.live({"a": 0.25})
    assert harness.store.serves() == live
    harness.lose(live)
    with pytest.raises(CorruptError, match=live.id):
        harness.again().serves()


def test_a_version_is_read_by_nobody_before_it_is_live(harness):
    first = harness.live({"a": 0.25})
    second = harness.built({"a": 0.5}, day=DAY + ONE_DAY)
    assert harness.store.live() == first
    assert scores_of(harness.store, ["a"]) == {"a": 0.25}
    switch = harness.store.advance(second)
    assert (switch.before, switch.after) == (first, second)
    assert harness.again().live() == second
    assert scores_of(harness.again(), ["a"]) == {"a": 0.5}


def test_ids_of_any_kind_keep_their_own_values(harness):
    scores = {user: n / 64 for n, user in enumerate(ODD_IDS)}
    version = harness.live(scores)
    assert scores_of(harness.store, ODD_IDS) == scores
    assert scanned(harness.store, version) == scores
    assert scores_of(harness.store, ["00", "1", "- 1", "\0", "nul", "x" * 57, "e"]) == {}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scores=st.dictionaries(st.text(max_size=80), st.floats(0, 1, width=32), min_size=1, max_size=300))
def test_any_text_is_an_id_and_any_score_comes_back_to_the_bit(harness, scores):
    version = harness.live(scores)
    assert scores_of(harness.store, list(scores)) == scores
    assert scanned(harness.store, version) == scores


def test_scores_come_back_to_the_bit(harness):
    values = [0.0, 1e-45, 0.1, float(np.nextafter(np.float32(1), np.float32(0))), 1.0]
    scores = {str(n): float(np.float32(value)) for n, value in enumerate(values)}
    harness.live(scores)
    assert scores_of(harness.store, list(scores)) == scores


def test_half_a_surrogate_pair_is_nobody(harness):
    harness.live({"a": 0.5})
    answers = lookup(harness.store, ["a", "\ud800"], now=NOW)
    assert [answers[user].state for user in ("a", "\ud800")] == ["found", "missing"]


def test_a_day_of_several_blocks_is_found_whole(harness, monkeypatch):
    monkeypatch.setattr(buckets, "BLOCK_ROWS", 300)
    version = harness.live(MANY)
    assert scores_of(harness.store, list(MANY)) == MANY
    assert scanned(harness.store, version) == MANY


def test_a_day_without_users_is_a_version_too(harness):
    version = harness.live({})
    assert harness.store.read(["a"]) == (version, {})
    assert scanned(harness.store, version) == {}


def test_found_missing_and_expired_are_told_apart(harness):
    version = harness.live({"a": 0.25})
    answers = lookup(harness.store, ["a", "b"], now=NOW)
    assert (answers["a"].state, answers["a"].score, answers["a"].route) == ("found", 0.25, "full")
    assert (answers["a"].day, answers["a"].bundle_id) == (DAY, version.bundle_id)
    assert (answers["b"].state, answers["b"].score, answers["b"].stale_score) == ("missing", None, None)
    late = lookup(harness.store, ["a", "b"], now=version.expires_at)
    assert (late["a"].state, late["a"].score, late["a"].stale_score) == ("expired", None, 0.25)
    assert late["b"].state == "missing"


def test_an_older_day_never_becomes_live(harness):
    newest = harness.live({"a": 0.5})
    older = harness.built({"a": 0.25}, day=DAY - ONE_DAY)
    switch = harness.store.advance(older)
    assert (switch.before, switch.after) == (newest, newest)
    assert scores_of(harness.store, ["a"]) == {"a": 0.5}


def test_the_same_day_published_again_replaces_itself(harness):
    harness.live({"a": 0.25, "b": 0.25})
    again = harness.live({"a": 0.5})
    assert harness.store.read(["a", "b"]) == (again, {"a": buckets.Record(score=0.5, route="full")})


def test_of_days_published_at_the_same_moment_the_newest_is_live(harness):
    days = [DAY + n * ONE_DAY for n in (3, 0, 7, 5, 1, 6, 2, 4)]
    versions = [harness.built({"a": n / 8}, day=day) for n, day in enumerate(days)]
    start = threading.Barrier(len(versions))

    def advance(version):
        store = harness.again()
        start.wait()
        store.advance(version)

    with ThreadPoolExecutor(len(versions)) as pool:
        list(pool.map(advance, versions))
    assert harness.store.live().day == max(days)


def test_a_switch_to_another_version_only_happens_if_the_live_one_is_the_one_that_was_seen(harness):
    first = harness.live({"a": 0.25})
    second = harness.live({"a": 0.5}, day=DAY + ONE_DAY)
    assert not harness.store.replace(first, None)
    assert harness.store.live() == second
    assert harness.store.replace(second, first)
    assert harness.store.live() == first
    assert harness.store.replace(first, None)
    assert harness.store.live() is None


def test_the_live_version_never_goes_by_itself(harness):
    version = harness.live(MANY)
    harness.store.retire(version, 60)
    harness.store.remove(version)
    harness.lapse()
    harness.store.sweep()
    assert [held.until for held in harness.store.held()] == [None]
    assert scanned(harness.store, version) == MANY


def test_a_replaced_version_goes_when_its_time_is_over_and_leaves_nothing(harness):
    old = harness.live(MANY)
    new = harness.live({"a": 0.5}, day=DAY + ONE_DAY)
    harness.store.retire(old, 60)
    assert {held.version.id: held.until is None for held in harness.store.held()} == {old.id: False, new.id: True}
    harness.lapse()
    assert [held.version.id for held in harness.store.held()] == [new.id]
    harness.store.sweep()
    assert harness.residue() == {new.id}


def test_a_retired_version_that_becomes_live_again_stays(harness):
    old = harness.live(MANY)
    new = harness.live({"a": 0.5}, day=DAY + ONE_DAY)
    harness.store.retire(old, 60)
    assert harness.store.replace(new, old)
    harness.lapse()
    harness.store.sweep()
    assert harness.store.live() == old
    assert scanned(harness.store, old) == MANY


def test_what_a_killed_build_left_is_cleared(harness):
    live = harness.live({"a": 0.5})
    harness.abandon(harness.version({"a": 0.25, "b": 0.5}))
    assert [held.version for held in harness.store.held()] == [live]
    harness.store.sweep()
    assert harness.residue() == {live.id}


def test_two_profiles_never_meet(harness):
    version, other = harness.live({"a": 0.25}), harness.neighbour()
    assert other.live() is None
    other.build(harness.version({"a": 0.5}, id=version.id), [table({"a": 0.5})], Pace())
    other.advance(harness.version({"a": 0.5}, id=version.id))
    assert scores_of(harness.store, ["a"]) == {"a": 0.25}
    assert scores_of(other, ["a"]) == {"a": 0.5}
    other.replace(other.live(), None)
    other.remove(harness.version({"a": 0.5}, id=version.id))
    assert scores_of(harness.store, ["a"]) == {"a": 0.25}


def test_a_reader_never_mixes_two_versions_nor_misses_a_user(harness):
    """Two versions take turns under the reader; each replaced one is removed at once."""
    ids = list(MANY)[::10]
    harness.live(MANY, day=DAY)
    is_over = threading.Event()

    def read_on():
        store, seen, times = harness.again(), set(), 0
        while not is_over.is_set() or times == 0:
            version, records = store.read(ids)
            assert len(records) == len(ids)
            seen |= {(version.day, record.score - MANY[user]) for user, record in records.items()}
            times += 1
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read_on) for _ in range(2)]
        try:
            for turn in range(1, 30):
                scores = {user: score + turn for user, score in MANY.items()}
                old = harness.store.live()
                harness.live(scores, day=DAY + turn * ONE_DAY)
                harness.store.remove(old)
        finally:
            is_over.set()
        seen = set().union(*(reader.result() for reader in readers))
    assert seen <= {(DAY + turn * ONE_DAY, turn) for turn in range(30)}


def test_a_load_keeps_to_its_pace(harness):
    slept: list[float] = []
    pace = Pace(100, clock=lambda: sum(slept), sleep=slept.append)
    harness.store.build(harness.version(MANY), [table(MANY)], pace)
    assert sum(slept) == pytest.approx(10.0)


def test_a_day_is_brought_online_once_and_found_again(harness):
    version = harness.version(MANY)
    first = bring(harness.store, version, rows_of(MANY), pace=Pace(), keep_s=60)
    assert (first.is_built, first.is_live, first.switch.before) == (True, True, None)
    assert (first.parity.is_equal, first.parity.rows_online, first.parity.sampled) == (True, 1000, 1000)
    again = bring(harness.store, harness.version(MANY, content=version.content), rows_of(MANY), pace=Pace(), keep_s=60)
    assert (again.is_built, again.version, again.is_live) == (False, version, True)
    assert harness.residue() == {version.id}
    assert spot_check(harness.store, version, rows_of(MANY)) == ()


def test_a_newer_day_that_is_live_by_then_is_no_difference(harness):
    version = harness.live(MANY)
    harness.live({"a": 0.5}, day=DAY + ONE_DAY)
    assert spot_check(harness.store, version, rows_of(MANY)) == ()
    newer = harness.version(MANY, day=DAY + 2 * ONE_DAY)
    assert len(spot_check(harness.store, newer, rows_of(MANY))) == len(MANY)


def test_what_was_live_is_kept_for_a_rollback_and_for_no_longer(harness):
    first = bring(harness.store, harness.version(MANY), rows_of(MANY), pace=Pace(), keep_s=60).version
    other = {"a": 0.5}
    tomorrow = harness.version(other, day=DAY + ONE_DAY)
    bring(harness.store, tomorrow, rows_of(other), pace=Pace(), keep_s=60)
    switch = rollback(harness.store, keep_s=60)
    assert (switch.before, switch.after) == (tomorrow, first)
    assert scores_of(harness.store, ["user-8"]) == {"user-8": MANY["user-8"]}
    with pytest.raises(DataError, match="no version before"):
        rollback(harness.store, keep_s=60)
    harness.lapse()
    assert [held.version for held in harness.store.held()] == [first]


def test_the_day_that_was_rolled_back_can_be_published_again(harness):
    bring(harness.store, harness.version({"a": 0.25}), rows_of({"a": 0.25}), pace=Pace(), keep_s=60)
    bad = harness.version({"a": 0.5}, day=DAY + ONE_DAY)
    bring(harness.store, bad, rows_of({"a": 0.5}), pace=Pace(), keep_s=60)
    rollback(harness.store, keep_s=60)
    good = harness.version({"a": 0.75}, day=DAY + ONE_DAY)
    assert bring(harness.store, good, rows_of({"a": 0.75}), pace=Pace(), keep_s=60).is_live


def test_a_build_that_lacks_a_user_moves_nothing_and_is_thrown_away(harness):
    live = harness.live({"a": 0.25})
    version = harness.version(MANY, day=DAY + ONE_DAY)
    with pytest.raises(AccountingError, match="does not hold what the table"):
        bring(harness.store, version, rows_of(dict(list(MANY.items())[1:])), pace=Pace(), keep_s=60)
    assert harness.store.live() == live
    assert harness.residue() == {live.id}


def test_values_that_differ_are_named(harness):
    version = harness.built(MANY)
    other = {**MANY, "user-7": 0.9921875}
    parity = compare(harness.store, version, rows_of(other))
    assert (parity.is_equal, parity.has_equal_keys, parity.differing) == (False, True, ("user-7",))


def test_a_version_that_was_damaged_is_built_anew(harness):
    version = bring(harness.store, harness.version(MANY), rows_of(MANY), pace=Pace(), keep_s=60).version
    harness.damage(version)
    fresh = harness.version(MANY, content=version.content)
    again = bring(harness.again(), fresh, rows_of(MANY), pace=Pace(), keep_s=60)
    assert (again.is_built, again.version) == (True, fresh)
    assert scores_of(harness.again(), list(MANY)) == MANY


def test_a_user_who_is_gone_the_next_day_is_missing(harness):
    for day, scores in ((DAY, {"a": 0.25, "gone": 0.5}), (DAY + ONE_DAY, {"a": 0.25})):
        bring(harness.store, harness.version(scores, day=day), rows_of(scores), pace=Pace(), keep_s=60)
    assert lookup(harness.store, ["gone"], now=NOW)["gone"].state == "missing"


def test_a_day_taken_back_gives_its_place_to_the_one_before(harness):
    first = harness.live({"a": 0.25})
    harness.live({"a": 0.5}, day=DAY + ONE_DAY)
    switch = take_back(harness.store, DAY + ONE_DAY)
    assert (switch.before.day, switch.after) == (DAY + ONE_DAY, first)
    assert scores_of(harness.store, ["a"]) == {"a": 0.25}
    assert harness.residue() == {first.id}


def test_the_only_day_taken_back_leaves_nothing_live(harness):
    harness.live({"a": 0.25})
    harness.live({"a": 0.5})
    assert take_back(harness.store, DAY).after is None
    assert harness.store.live() is None
    assert harness.residue() == set()


def test_a_day_that_is_not_live_is_taken_back_without_a_switch(harness):
    harness.live({"a": 0.25})
    live = harness.live({"a": 0.5}, day=DAY + ONE_DAY)
    switch = take_back(harness.store, DAY)
    assert (switch.before, switch.after) == (live, live)
    assert harness.residue() == {live.id}


@pytest.mark.parametrize(
    "harness", ["sqlite", pytest.param("redis", marks=pytest.mark.service("redis"))], indirect=True
)
def test_a_pointer_to_a_version_that_was_lost_is_an_error_and_no_miss(harness):
    harness.lose(harness.live({"a": 0.25}))
    with pytest.raises(CorruptError, match="points to"):
        harness.again().read(["a"])
