"""Moments of a day: on the wall clock of the zone, also where that clock is changed."""

from __future__ import annotations

import datetime as dt

import pytest

from profile_assets.errors import PermanentError, ProfileError
from profile_assets.storage.days import as_utc, day_end, wall_clock

SPRING, AUTUMN = dt.date(2026, 3, 29), dt.date(2026, 10, 25)


@pytest.mark.parametrize(("day", "hours"), [(dt.date(2026, 1, 5), 24), (SPRING, 23), (AUTUMN, 25)])
def test_a_day_in_berlin_lasts_as_long_as_its_clock_says(day, hours):
    began = day_end(day - dt.timedelta(days=1), "Europe/Berlin")
    assert day_end(day, "Europe/Berlin") - began == dt.timedelta(hours=hours)


def test_the_end_of_a_day_is_held_in_utc():
    assert day_end(dt.date(2026, 1, 5), "Europe/Berlin") == dt.datetime(2026, 1, 5, 23, tzinfo=dt.UTC)


def test_a_clock_time_is_the_same_time_on_a_day_of_23_hours():
    assert wall_clock(SPRING, 4, "Europe/Berlin") == dt.datetime(2026, 3, 29, 2, tzinfo=dt.UTC)


def test_a_skipped_time_and_a_doubled_time_have_one_moment_each():
    assert wall_clock(SPRING, 2.5, "Europe/Berlin") == dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
    assert wall_clock(AUTUMN, 2.5, "Europe/Berlin") == dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize("name", ["Europe/Berln", "", "../etc/passwd"])
def test_an_unknown_zone_is_refused_by_name(name):
    with pytest.raises(ProfileError, match="no time zone"):
        day_end(SPRING, name)


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(PermanentError, match="has no time zone"):
        as_utc(dt.datetime(2026, 1, 5))  # noqa: DTZ001
