"""Taking a published day back: what readers then see, what a rerun does, and what a death on the way leaves."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from profile_assets.errors import CorruptError, DataError, GateError, StorageError
from profile_assets.feature_store.read import lookup, newest_day, read_day
from profile_assets.feature_store.withdraw import complete_withdrawal, undo_withdrawal, withdraw
from profile_assets.quality.baseline import find_baselines
from profile_assets.quality.freshness import DueRule, freshness
from profile_assets.storage.published import TargetState, published_days, read_part_record, read_record, write_record
from profile_assets.storage.withdrawals import read_withdrawal, withdrawn_days, write_withdrawal

IDS = ["a", "b", "c", "d", "e"]
HOUR = dt.timedelta(hours=1)
ONE_DAY = dt.timedelta(days=1)
NOW = dt.datetime(2026, 1, 6, 2, 30, 0, 123456, tzinfo=dt.UTC)
SAID = {"why": "prices in cents", "by": "ada", "now": NOW + HOUR}


@pytest.fixture
def two_days(pipeline, day):
    for one, bundle in ((day - ONE_DAY, "b-1"), (day, "b-2")):
        pipeline.run(one, IDS, bundle=bundle)
        pipeline.publish(one)
    return pipeline.layout


def test_readers_then_see_the_day_before(two_days, day):
    made = withdraw(two_days, day, **SAID)
    assert newest_day(two_days) == day - ONE_DAY
    assert published_days(two_days) == [day - ONE_DAY]
    assert lookup(two_days, "a")["bundle_id"] == "b-1"
    with pytest.raises(DataError, match="2026-01-05 of purchase_30d is not published"):
        read_day(two_days, day)
    assert [path.parent.name for path in two_days.offline.rglob("*.parquet")] == ["ds=2026-01-04"]
    assert read_withdrawal(two_days, day) == made
    assert withdrawn_days(two_days) == {day: "prices in cents"}


def test_the_record_says_who_took_it_back_when_and_why(two_days, day):
    published = read_record(two_days, day)
    made = withdraw(two_days, day, **SAID)
    assert (made.by, made.at, made.why) == ("ada", NOW + HOUR, "prices in cents")
    assert (made.published_at, made.sources) == (NOW, published.sources)
    assert read_record(two_days, day).targets["offline"].state == "withdrawn"


def test_the_other_days_are_not_touched(two_days, day):
    before = two_days.offline_part(day - ONE_DAY).read_bytes()
    withdraw(two_days, day, **SAID)
    assert two_days.offline_part(day - ONE_DAY).read_bytes() == before


def test_a_day_that_was_taken_back_is_stale_and_no_baseline(two_days, day):
    withdraw(two_days, day, **SAID)
    rule = DueRule(time_zone="UTC", hour=2, grace_hours=2, start_day=day - ONE_DAY)
    state = freshness(NOW + 2 * HOUR, rule, published_days(two_days))
    assert (state.state, state.missing) == ("stale", (day,))
    assert find_baselines(two_days, day + ONE_DAY).newest.day == day - ONE_DAY


def test_the_same_data_is_not_published_again_by_a_rerun(pipeline, two_days, day):
    withdraw(two_days, day, **SAID)
    with pytest.raises(GateError, match="withdrawn by ada: prices in cents"):
        pipeline.publish(day, now=NOW + 2 * HOUR)
    assert newest_day(two_days) == day - ONE_DAY


def test_other_data_of_the_day_is_published_and_stays_published(pipeline, two_days, day):
    withdraw(two_days, day, **SAID)
    pipeline.run(day, ["x", "y"], bundle="b-2")
    record = pipeline.publish(day, now=NOW + 2 * HOUR)
    assert sorted(read_day(two_days, day)["user_id"].to_pylist()) == ["x", "y"]
    assert (withdrawn_days(two_days), newest_day(two_days)) == ({}, day)
    assert pipeline.publish(day, now=NOW + 3 * HOUR) == record
    assert find_baselines(two_days, day + ONE_DAY).newest.rows == 2


def test_what_was_right_after_all_is_published_again_once_the_withdrawal_is_undone(pipeline, two_days, day):
    withdraw(two_days, day, **SAID)
    undo_withdrawal(two_days, day)
    assert newest_day(two_days) == day - ONE_DAY
    record = pipeline.publish(day, now=NOW + 2 * HOUR)
    assert (newest_day(two_days), record.targets["offline"].at) == (day, NOW + 2 * HOUR)
    assert withdrawn_days(two_days) == {}
    with pytest.raises(DataError, match="is not withdrawn"):
        undo_withdrawal(two_days, day)


def test_a_day_can_be_withdrawn_published_anew_and_withdrawn_again(pipeline, two_days, day):
    withdraw(two_days, day, **SAID)
    pipeline.run(day, ["x"])
    pipeline.publish(day, now=NOW + 2 * HOUR)
    withdraw(two_days, day, **{**SAID, "why": "again"})
    assert withdrawn_days(two_days) == {day: "again"}


@pytest.mark.parametrize("why", ["", " "])
def test_a_withdrawal_needs_a_reason(two_days, day, why):
    with pytest.raises(DataError, match="no reason"):
        withdraw(two_days, day, **{**SAID, "why": why})
    assert newest_day(two_days) == day


def test_a_day_that_is_not_published_cannot_be_withdrawn(two_days, day):
    with pytest.raises(DataError, match="2026-01-06 is not published"):
        withdraw(two_days, day + ONE_DAY, **SAID)
    withdraw(two_days, day, **SAID)
    with pytest.raises(DataError, match="2026-01-05 is not published"):
        withdraw(two_days, day, **SAID)


@pytest.fixture
def written_down(two_days, day):
    """The withdrawal as it is written before anything is removed: where one may have died."""
    bytes_before = two_days.offline_part(day).read_bytes()
    record = read_record(two_days, day)
    made = withdraw(two_days, day, **SAID)
    two_days.offline_part(day).write_bytes(bytes_before)
    write_record(two_days, record)
    return made


def test_killed_before_the_file_went_the_next_publication_completes_it(pipeline, two_days, day, written_down):
    assert newest_day(two_days) == day
    with pytest.raises(GateError, match="withdrawn by ada"):
        pipeline.publish(day, now=NOW + 2 * HOUR)
    assert newest_day(two_days) == day - ONE_DAY
    assert not two_days.offline_part(day).exists()
    assert read_withdrawal(two_days, day) == written_down


def test_killed_after_the_file_went_the_record_is_completed(pipeline, two_days, day, written_down):
    two_days.offline_part(day).unlink()
    assert find_baselines(two_days, day + ONE_DAY).newest.day == day - ONE_DAY
    with pytest.raises(GateError, match="withdrawn by ada"):
        pipeline.publish(day, now=NOW + 2 * HOUR)
    assert read_record(two_days, day).targets["offline"].state == "withdrawn"
    assert published_days(two_days) == [day - ONE_DAY]
    assert written_down.day == day


def test_killed_on_the_way_other_data_can_be_published_at_once(pipeline, two_days, day, written_down):
    pipeline.run(day, ["x"])
    pipeline.publish(day, now=NOW + 2 * HOUR)
    assert read_day(two_days, day)["user_id"].to_pylist() == ["x"]
    assert read_part_record(two_days, day) == read_record(two_days, day)
    assert written_down.day == day


def test_completing_what_is_complete_changes_nothing(two_days, day):
    withdraw(two_days, day, **SAID)
    before = two_days.publish_record(day).stat().st_mtime_ns
    complete_withdrawal(two_days, day)
    assert two_days.publish_record(day).stat().st_mtime_ns == before


def test_a_publication_that_stands_is_not_completed_away(two_days, day):
    complete_withdrawal(two_days, day)
    assert newest_day(two_days) == day


def test_no_other_target_holds_a_withdrawal_up_and_what_failed_is_taken_back_by_the_next_call(two_days, day):
    seen = []

    def take_back(one):
        seen.append((one, two_days.offline_part(day).exists()))
        if len(seen) == 1:
            raise DataError("the other store is down", remedy="start it")

    with pytest.raises(DataError, match="withdrawn from the table; online is pending: the other store is down"):
        withdraw(two_days, day, **SAID, others={"online": take_back})
    assert newest_day(two_days) == day - ONE_DAY
    assert read_record(two_days, day).targets["online"].state == "pending"
    made = withdraw(two_days, day, **{**SAID, "why": "once more"}, others={"online": take_back})
    assert (made, made.why) == (read_withdrawal(two_days, day), SAID["why"])
    assert seen == [(day, False), (day, False)]
    assert {target.state for target in read_record(two_days, day).targets.values()} == {"withdrawn"}
    with pytest.raises(DataError, match="is not published"):
        withdraw(two_days, day, **SAID, others={"online": take_back})


def test_a_withdrawal_that_is_undone_is_completed_first(two_days, day):
    def down(_):
        raise StorageError("the other store is down", remedy="start it")

    with pytest.raises(StorageError, match="is down"):
        withdraw(two_days, day, **SAID, others={"online": down})
    with pytest.raises(StorageError, match="is down"):
        undo_withdrawal(two_days, day, others={"online": down})
    assert not read_withdrawal(two_days, day).is_undone
    taken = []
    assert undo_withdrawal(two_days, day, others={"online": taken.append}).is_undone
    assert taken == [day]


def test_the_same_users_come_not_back_because_something_downstream_is_another(pipeline, two_days, day):
    withdraw(two_days, day, **SAID)
    _, _, scores = pipeline.run(day, IDS, values=[n / 64 for n in range(len(IDS))], bundle="b-2")
    assert scores.digest != read_withdrawal(two_days, day).sources["user_scores"]
    with pytest.raises(GateError, match="withdrawn by ada"):
        pipeline.publish(day, now=NOW + 2 * HOUR)


def test_the_same_users_scored_by_another_bundle_are_a_new_decision(pipeline, two_days, day):
    withdraw(two_days, day, **SAID)
    pipeline.run(day, IDS, bundle="b-3")
    assert pipeline.publish(day, now=NOW + 2 * HOUR).bundle_id == "b-3"


def test_what_is_known_of_other_targets_stays_in_the_record(two_days, day):
    online = TargetState(state="done", at=NOW)
    record = read_record(two_days, day)
    write_record(two_days, dataclasses.replace(record, targets={**record.targets, "online": online}))
    withdraw(two_days, day, **SAID)
    assert read_record(two_days, day).targets["online"] == online


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_day_whose_file_is_damaged_or_gone_can_be_withdrawn(two_days, day, is_gone):
    path = two_days.offline_part(day)
    path.write_bytes(path.read_bytes()[:8])
    if is_gone:
        path.unlink()
    withdraw(two_days, day, **SAID)
    assert newest_day(two_days) == day - ONE_DAY
    assert not path.exists()
    assert find_baselines(two_days, day + ONE_DAY).newest.day == day - ONE_DAY


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 1, "day": "2026-01-04"}'])
def test_a_bent_withdrawal_is_an_error_and_never_an_absence(two_days, day, text):
    write_withdrawal(two_days, withdraw(two_days, day, **SAID))
    two_days.withdrawal(day).write_text(text)
    with pytest.raises(CorruptError, match=r"2026-01-05\.json"):
        read_withdrawal(two_days, day)
    with pytest.raises(CorruptError, match=r"2026-01-05\.json"):
        find_baselines(two_days, day + ONE_DAY)


def test_a_withdrawal_whose_record_was_lost_still_holds_until_it_is_undone(two_days, pipeline, day):
    withdraw(two_days, day, **SAID)
    two_days.withdrawal(day).unlink()
    for _ in range(2):
        with pytest.raises(GateError, match=r"was withdrawn by somebody: .* is lost") as refused:
            pipeline.publish(day)
        assert "--undo" in refused.value.remedy
    assert published_days(two_days) == [day - ONE_DAY]
    assert undo_withdrawal(two_days, day).is_undone
    pipeline.publish(day)
    assert published_days(two_days) == [day - ONE_DAY, day]
    assert read_withdrawal(two_days, day).is_undone


def test_other_data_is_published_where_the_record_of_a_withdrawal_was_lost(two_days, pipeline, day):
    withdraw(two_days, day, **SAID)
    two_days.withdrawal(day).unlink()
    pipeline.run(day, IDS[:3], bundle="b-2")
    pipeline.publish(day)
    assert read_record(two_days, day).is_offline_done
    assert read_withdrawal(two_days, day) is None
