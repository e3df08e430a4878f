"""Freshness: what is due, on the clock of the zone, against what is published."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import PermanentError
from profile_assets.quality.freshness import DueRule, due_at, freshness, newest_due_day

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
RULE = DueRule(time_zone="Europe/Berlin", hour=2, grace_hours=2, start_day=dt.date(2026, 1, 1))
ONE_DAY = dt.timedelta(days=1)


def berlin(*parts):
    return dt.datetime(*parts, tzinfo=BERLIN)


def days(first, last):
    return [dt.date(2026, 1, number) for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("now", "newest"),
    [
        (berlin(2026, 1, 5, 3, 59, 59), dt.date(2026, 1, 3)),
        (berlin(2026, 1, 5, 4, 0), dt.date(2026, 1, 4)),
        (berlin(2026, 3, 29, 3, 59), dt.date(2026, 3, 27)),  # the night that lacks an hour
        (berlin(2026, 3, 29, 4, 0), dt.date(2026, 3, 28)),
        (berlin(2026, 10, 25, 3, 59), dt.date(2026, 10, 23)),  # the night that has one twice
        (berlin(2026, 10, 25, 4, 0), dt.date(2026, 10, 24)),
    ],
)
def test_a_day_is_due_at_four_on_the_wall_clock(now, newest):
    assert newest_due_day(now, RULE) == newest


def test_an_hour_that_the_night_skips_still_gives_one_due_moment():
    rule = DueRule(time_zone="Europe/Berlin", hour=2.5, grace_hours=0, start_day=RULE.start_day)
    assert due_at(dt.date(2026, 3, 28), rule) == dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)


def test_a_grace_of_more_than_a_day_is_counted_on():
    rule = DueRule(time_zone="Europe/Berlin", hour=2, grace_hours=48, start_day=RULE.start_day)
    assert newest_due_day(berlin(2026, 1, 7, 2), rule) == dt.date(2026, 1, 4)
    assert newest_due_day(berlin(2026, 1, 7, 1, 59), rule) == dt.date(2026, 1, 3)


def test_nothing_is_due_before_the_first_day_is():
    assert newest_due_day(berlin(2026, 1, 2, 3), RULE) is None
    assert newest_due_day(berlin(2020, 1, 1), RULE) is None
    assert freshness(berlin(2026, 1, 2, 3), RULE, []).state == "not_started"


def test_all_due_days_published_is_fresh():
    found = freshness(berlin(2026, 1, 5, 4), RULE, days(1, 4))
    assert (found.state, found.newest_due, found.newest_published) == ("fresh", days(4, 4)[0], days(4, 4)[0])
    assert found.missing == ()


def test_a_due_day_that_is_not_published_is_stale():
    found = freshness(berlin(2026, 1, 5, 4), RULE, days(1, 3))
    assert (found.state, found.missing) == ("stale", tuple(days(4, 4)))


def test_a_hole_among_older_days_is_stale_too():
    found = freshness(berlin(2026, 1, 5, 4), RULE, [*days(1, 2), *days(4, 4)])
    assert (found.state, found.missing) == ("stale", tuple(days(3, 3)))


def test_a_backfill_of_an_old_day_does_not_make_a_stale_table_fresh():
    before = freshness(berlin(2026, 1, 6, 12), RULE, days(2, 3))
    after = freshness(berlin(2026, 1, 6, 12), RULE, days(1, 3))
    assert (before.state, after.state) == ("stale", "stale")
    assert after.newest_published == before.newest_published


def test_a_day_of_the_future_does_not_hide_that_a_due_one_is_missing():
    found = freshness(berlin(2026, 1, 5, 4), RULE, [*days(1, 3), dt.date(2030, 1, 1)])
    assert (found.state, found.missing) == ("stale", tuple(days(4, 4)))


def test_nothing_published_names_every_due_day():
    found = freshness(berlin(2026, 1, 5, 4), RULE, [])
    assert (found.newest_published, found.missing) == (None, tuple(days(1, 4)))


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(PermanentError, match="has no time zone"):
        newest_due_day(dt.datetime(2026, 1, 5, 4), RULE)  # noqa: DTZ001


@given(
    now=st.datetimes(dt.datetime(2026, 1, 3), dt.datetime(2027, 12, 31), timezones=st.just(dt.UTC)),  # noqa: DTZ001
    zone=st.sampled_from(["Europe/Berlin", "UTC", "America/New_York", "Pacific/Kiritimati", "Australia/Lord_Howe"]),
    hour=st.floats(0, 23.9),
    grace_hours=st.floats(0, 50),
)
def test_the_newest_due_day_is_due_and_the_next_is_not(now, zone, hour, grace_hours):
    rule = DueRule(time_zone=zone, hour=hour, grace_hours=grace_hours, start_day=dt.date(2025, 1, 1))
    newest = newest_due_day(now, rule)
    assert due_at(newest, rule) <= now < due_at(newest + ONE_DAY, rule)
