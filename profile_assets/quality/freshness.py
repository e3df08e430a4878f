"""Is what readers see as new as it should be? Judged from the published days and the clock, never from runs.

A day is due at its end + the schedule's hour + a grace, on the wall clock of the profile's zone. The table is stale
while any due day is not published: a later day, or a backfill of another, does not hide it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from profile_assets.storage.days import as_utc, wall_clock, zone

ONE_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class DueRule:
    """When days are due: `hour` of the day after, plus `grace_hours`, in `time_zone`; from `start_day` on."""

    time_zone: str
    hour: float
    grace_hours: float
    start_day: dt.date


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """`missing` holds every due day that is not published, oldest first."""

    state: Literal["fresh", "stale", "not_started"]
    newest_due: dt.date | None
    newest_published: dt.date | None
    missing: tuple[dt.date, ...]


def due_at(day: dt.date, rule: DueRule) -> dt.datetime:
    """The moment, in UTC, from which a day should be published."""
    return wall_clock(day + ONE_DAY, rule.hour + rule.grace_hours, rule.time_zone)


def newest_due_day(now: dt.datetime, rule: DueRule) -> dt.date | None:
    """The newest day that is due at `now`, an aware moment; None where none is, or the first is still to come."""
    moment = as_utc(now)
    day = moment.astimezone(zone(rule.time_zone)).date()
    while day >= rule.start_day and due_at(day, rule) > moment:
        day -= ONE_DAY
    return day if day >= rule.start_day else None


def freshness(now: dt.datetime, rule: DueRule, published: Sequence[dt.date]) -> Freshness:
    """How the published days compare with those that are due at `now`."""
    newest_due = newest_due_day(now, rule)
    newest_published = max(published, default=None)
    if newest_due is None:
        return Freshness(state="not_started", newest_due=None, newest_published=newest_published, missing=())
    days = (rule.start_day + ONE_DAY * n for n in range((newest_due - rule.start_day).days + 1))
    there = set(published)
    missing = tuple(day for day in days if day not in there)
    return Freshness(
        state="stale" if missing else "fresh",
        newest_due=newest_due,
        newest_published=newest_published,
        missing=missing,
    )
