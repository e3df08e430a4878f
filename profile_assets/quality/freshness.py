"""Is what readers see as new as it should be? Judged from the published days and the clock, never from runs.

A day is due at its end + the schedule's hour + a grace, on the wall clock of the profile's zone. The table is stale
while any due day is not published under a verdict that passed or was released: a later day, or a backfill of another,
does not hide it. Lookups serve one day, and are stale while a due day is newer; what they serve is what their store
says. `judge_freshness` is the one judgement that the asset check, the alerts and the command share.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from profile_assets.errors import ProfileAssetsError
from profile_assets.quality.standing import Standing, standing
from profile_assets.storage.days import as_utc, wall_clock, zone
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import BUCKET, OFFLINE, ONLINE, Live
from profile_assets.users.source import SourceSettings
from profile_assets.users.taking import sighted

ONE_DAY = dt.timedelta(days=1)
SOURCES_LOOKED_AT = 7
"""The newest missing days whose source is looked at: older ones do not start by themselves."""

State = Literal["fresh", "stale", "not_started", "unknown"]
"""`unknown`: it cannot be told, which is no pass."""


@dataclass(frozen=True, kw_only=True)
class DueRule:
    """When days are due: `hour` of the day after, plus `grace_hours`, in `time_zone`; from `start_day` on.

    `first_day` is the first one that is scored at all, `start_day` unless days before that are history.
    """

    time_zone: str
    hour: float
    grace_hours: float
    start_day: dt.date
    first_day: dt.date | None = None


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """`missing` holds every due day that is not published, oldest first."""

    state: State
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


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Freshness of each target: the table, and the lookups and the table's copy on S3 where the profile has them.

    `late` are missing days of the table that have no source yet, with what each waits for; the other two fields of
    `standing` say which days the table has and why some of them do not count. `beyond`: the first day is to
    come, though days are published, so that nothing would be told.
    """

    table: Freshness
    lookups: Freshness | None
    copy: Freshness | None = None
    standing: Standing
    late: Mapping[dt.date, str] = field(default_factory=dict)
    beyond: str = ""

    @property
    def targets(self) -> Mapping[str, Freshness]:
        """By the names that publish records have for them."""
        found = {OFFLINE: self.table, ONLINE: self.lookups, BUCKET: self.copy}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def state(self) -> State:
        """Stale where any target is; else unknown where any is."""
        found = {one.state for one in self.targets.values()}
        worst: tuple[State, ...] = ("stale", "unknown")
        return next((state for state in worst if state in found), self.table.state)

    @property
    def is_alarming(self) -> bool:
        return self.state not in ("fresh", "not_started")

    @property
    def missing(self) -> tuple[dt.date, ...]:
        """Every due day that some target lacks, oldest first."""
        return tuple(sorted({day for one in self.targets.values() for day in one.missing}))


def judge_freshness(
    layout: Layout,
    rule: DueRule,
    now: dt.datetime,
    *,
    live: Live | None,
    has_copy: bool = False,
    source: SourceSettings | None = None,
) -> Judgement:
    """The freshness of what is on disk at `now`, an aware moment; with `source`, also why days are missing upstream.

    `live` is what the store of lookups said just now; None for a profile without lookups.
    """
    stands = standing(layout, live)
    table = freshness(now, rule, stands.days)
    beyond = starts_beyond(rule, now, stands.days_in_table)
    if beyond:
        table = replace(table, state="unknown")
    lookups = None if live is None else _lookups(now, rule, stands)
    late = {} if source is None else _late(source, table.missing[-SOURCES_LOOKED_AT:], stands.days_in_table, now)
    # A day that was published before the profile named a bucket was never meant for it.
    copied = [day for day in stands.days if day not in stands.pending[BUCKET]]
    copy = freshness(now, rule, copied) if has_copy else None
    return Judgement(table=table, lookups=lookups, copy=copy, standing=stands, late=late, beyond=beyond)


def starts_beyond(rule: DueRule, now: dt.datetime, published: Collection[dt.date]) -> str:
    """What is wrong where the first day is still to come and days before it are published; empty where nothing is."""
    first, today = rule.first_day or rule.start_day, as_utc(now).astimezone(zone(rule.time_zone)).date()
    before = [day for day in published if day < first]
    if first <= today or not before:
        return ""
    return (
        f"start_day {first} is still to come, and days before it are published up to {max(before)}: "
        "until then no day is due, and none can be missed"
    )


def _lookups(now: dt.datetime, rule: DueRule, stands: Standing) -> Freshness:
    """Lookups serve one day: every due day up to it is as good as there, and every newer one is missing."""
    due, served = freshness(now, rule, []), stands.served
    missing = tuple(day for day in due.missing if served is None or day > served)
    state: State = "stale" if missing else "fresh" if stands.is_served_known else "unknown"
    state = due.state if due.state == "not_started" else state
    return Freshness(state=state, newest_due=due.newest_due, newest_published=served, missing=missing)


def _late(
    source: SourceSettings, missing: Sequence[dt.date], in_table: Collection[dt.date], now: dt.datetime
) -> dict[dt.date, str]:
    """What each missing day's source waits for, of those that are not ready; words that follow "its source"."""
    found: dict[dt.date, str] = {}
    for day in missing:
        if day in in_table:
            continue  # it was read once: something else is wrong with it
        try:
            waits_for = sighted(source, day, now).waits_for
        except ProfileAssetsError as error:
            waits_for = f"cannot be looked at: {error.what}"
        if waits_for is not None:
            found[day] = waits_for
    return found
