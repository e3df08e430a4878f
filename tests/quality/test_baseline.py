"""The baseline: the newest earlier published day, and nothing that merely cannot be read."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from profile_assets.errors import CorruptError
from profile_assets.quality.baseline import Baseline, Baselines, find_baselines
from profile_assets.storage.keys import KeySet
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.published import FOOTER_KEY, PublishRecord, TargetState, write_record
from profile_assets.storage.withdrawals import Withdrawal, write_withdrawal

AT = dt.datetime(2026, 1, 6, tzinfo=dt.UTC)


@pytest.fixture
def published(layout, day):
    """A day `age_days` back, published with that many rows: its file and its record, unless told otherwise."""

    def build(age_days, *, rows=100, has_record=True, state="done", has_file=True):
        record = PublishRecord(
            day=day - dt.timedelta(days=age_days),
            rows=rows,
            keys=KeySet(count=rows, md5_sum=1),
            verdict_digest="v",
            sources={"raw_users": f"raw-{age_days}", "user_scores": f"scores-{age_days}"},
            bundle_id="b-1",
            null_rates={"age": 0.25},
            targets={"offline": TargetState(state=state, at=AT)},
        )
        if has_record:
            write_record(layout, record)
        if has_file:
            path = layout.offline_part(record.day)
            path.parent.mkdir(parents=True)
            footer = {FOOTER_KEY: json.dumps(record.to_json())}
            with ParquetSink(path, pa.schema([("user_id", pa.string())]), footer=footer) as sink:
                sink.write(pa.table({"user_id": ["a"]}))
        return record

    return build


def test_the_first_day_has_proven_that_it_has_none(layout, day):
    assert find_baselines(layout, day) == Baselines()


def test_the_newest_earlier_day_is_taken_with_what_it_published(layout, day, published):
    published(3, rows=300)
    published(2, rows=200)
    assert find_baselines(layout, day).newest == Baseline(
        day=day - dt.timedelta(days=2),
        rows=200,
        null_rates={"age": 0.25},
        digest="raw-2",
        scores_digest="scores-2",
        bundle_id="b-1",
    )


def test_the_day_itself_and_later_days_are_never_taken(layout, day, published):
    published(0)
    published(-1)
    assert find_baselines(layout, day) == Baselines()


@pytest.mark.parametrize(("age_days", "is_taken"), [(8, True), (9, False)])
def test_a_day_more_than_eight_days_back_is_too_old(layout, day, published, age_days, is_taken):
    published(age_days)
    assert (find_baselines(layout, day).newest is not None) == is_taken


@pytest.mark.parametrize(("ages", "taken"), [([7, 14], 7), ([1, 21], 21), ([28], 28), ([6, 8, 27, 35], None)])
def test_the_newest_of_the_same_weekday_is_taken_7_to_28_days_back(layout, day, published, ages, taken):
    for age_days in ages:
        published(age_days)
    weekday = find_baselines(layout, day).weekday
    assert (weekday and weekday.day) == (taken and day - dt.timedelta(days=taken))


@pytest.mark.parametrize("what", ["publish_record", "offline_part"])
def test_a_weekday_that_cannot_be_read_is_an_error_and_no_older_one_stands_in(layout, day, published, what):
    published(21)
    path = getattr(layout, what)(published(14).day)
    path.write_bytes(path.read_bytes()[:8])
    with pytest.raises(CorruptError, match=path.name):
        find_baselines(layout, day)


def test_a_day_that_was_withdrawn_is_no_baseline_even_where_its_file_is_still_there(layout, day, published):
    older, bad = published(2), published(1)
    withdrawn = Withdrawal(
        day=bad.day, why="bad", by="me", at=AT, published_at=AT, sources=bad.sources, bundle_id=bad.bundle_id
    )
    write_withdrawal(layout, withdrawn)
    assert find_baselines(layout, day).newest.day == older.day
    layout.offline_part(bad.day).unlink()
    assert find_baselines(layout, day).newest.day == older.day


def test_a_day_that_died_before_its_record_is_published_all_the_same(layout, day, published):
    published(1, rows=123, has_record=False)
    assert find_baselines(layout, day).newest.rows == 123


def test_a_day_that_waits_for_its_file_is_not_published(layout, day, published):
    published(1, state="pending", has_file=False)
    assert find_baselines(layout, day) == Baselines()


def test_a_record_whose_file_is_gone_is_an_error(layout, day, published):
    published(2)
    published(1, has_file=False)
    with pytest.raises(CorruptError, match="2026-01-04 is published"):
        find_baselines(layout, day)


@pytest.mark.parametrize("what", ["publish_record", "offline_part"])
def test_a_baseline_that_cannot_be_read_is_an_error_and_no_older_day_stands_in(layout, day, published, what):
    published(2)
    path = getattr(layout, what)(published(1).day)
    path.write_bytes(path.read_bytes()[:8])
    with pytest.raises(CorruptError, match=path.name):
        find_baselines(layout, day)
