"""Prepares the demo: the users table and the labels of a company whose customers are CDNOW's, a new day every night.

`prepare` writes the days that exist by now and are not there yet, and nothing else: called again it changes
nothing, killed midway it goes on where it stopped, and when the purchases have run out (after 91 days) its report
says so. Below `root/demo`: `users/day=…/part-0.parquet`, `labels/day=…/part-0.parquet`, `calendar.json`.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from profile_assets.errors import SourceError
from profile_assets.storage import atomic
from profile_assets.users.day_folders import is_whole_day, write_day
from profile_assets.users.demo_calendar import Calendar, choose_shift, load_calendar, save_calendar
from profile_assets.users.demo_purchases import (
    LABEL_SCHEMA,
    PROFILE_SCHEMA,
    label_table,
    profile_table,
    read_purchases,
)


@dataclass(frozen=True, kw_only=True)
class DemoReport:
    """What the demo holds after `prepare`. All days are shown days; `days` and `label_days` are sorted."""

    users: Path
    labels: Path
    calendar: Calendar
    days: tuple[dt.date, ...]
    label_days: tuple[dt.date, ...]
    num_written: int  # day folders, users and labels together
    is_exhausted: bool  # yesterday lies beyond the last purchase: no day will be added any more

    @property
    def days_left(self) -> int:
        """How many days are still to arrive."""
        return max(0, (self.calendar.last_day - self.days[-1]).days) if self.days else 0

    @property
    def message(self) -> str:
        """One or two sentences for people."""
        text = f"{len(self.days)} days of users and {len(self.label_days)} of labels are there ({self.num_written} new)"
        if self.is_exhausted:
            return (
                f"{text}. The demo's purchases end on {self.calendar.last_day}: no day follows. To start over, "
                f"remove {self.users.parent} and what was scored from it, then prepare again"
            )
        return f"{text}; {self.days_left} more arrive, one a day"


@dataclass(frozen=True, kw_only=True)
class _Demo:
    """The demo's paths below `root`."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "demo"

    @property
    def users(self) -> Path:
        return self.home / "users"

    @property
    def labels(self) -> Path:
        return self.home / "labels"

    @property
    def staging(self) -> Path:
        return self.home / "_staging"


_Task = tuple[Path, dt.date]  # a table and the shown day that it lacks


def calendar_path(root: Path) -> Path:
    """Where the demo below `root` keeps its calendar."""
    return _Demo(root=root).home / "calendar.json"


def prepare(
    root: Path, today: dt.date, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> DemoReport:
    """Write what the demo lacks on `today`; `progress` is told (folders done, folders to do).

    SourceError where the purchases are not installed or the calendar is gone; LockedError where another process
    prepares the same demo for over ten minutes.
    """
    demo = _Demo(root=root)
    if calendar_path(root).exists():
        calendar = load_calendar(calendar_path(root))
        if not _missing(demo, calendar, today):
            return _report(demo, calendar, today, num_written=0)
    with atomic.locked(demo.home / "prepare.lock", what="the demo"):
        calendar = _calendar(demo, today)
        tasks = _missing(demo, calendar, today)
        if tasks:
            _write(demo, calendar, tasks, progress)
    return _report(demo, calendar, today, num_written=len(tasks))


def _calendar(demo: _Demo, today: dt.date) -> Calendar:
    path = calendar_path(demo.root)
    if path.exists():
        return load_calendar(path)
    if demo.users.exists():
        raise SourceError(
            f"{path} is gone, and the days below {demo.users} cannot be told apart without it",
            remedy=f"put it back, or remove {demo.home} and what was scored from it, then prepare the demo again",
        )
    calendar = Calendar(shift_days=choose_shift(today))
    save_calendar(path, calendar, staging=demo.staging)
    return calendar


def _missing(demo: _Demo, calendar: Calendar, today: dt.date) -> list[_Task]:
    wanted = [(demo.users, day) for day in calendar.users_days(today)]
    wanted += [(demo.labels, day) for day in calendar.label_days(today)]
    return [(table, day) for table, day in wanted if not is_whole_day(table, day)]


def _write(demo: _Demo, calendar: Calendar, tasks: list[_Task], progress: Callable[[int, int], None]) -> None:
    purchases = read_purchases()
    for done, (table, day) in enumerate(tasks, start=1):
        original = calendar.original(day)
        if table == demo.users:
            write_day(table, day, PROFILE_SCHEMA, [profile_table(purchases, original)], staging=demo.staging)
        else:
            write_day(table, day, LABEL_SCHEMA, [label_table(purchases, original)], staging=demo.staging)
        progress(done, len(tasks))
    with atomic.disk_errors("cannot remove", demo.staging):
        shutil.rmtree(demo.staging)


def _report(demo: _Demo, calendar: Calendar, today: dt.date, *, num_written: int) -> DemoReport:
    return DemoReport(
        users=demo.users,
        labels=demo.labels,
        calendar=calendar,
        days=calendar.users_days(today),
        label_days=calendar.label_days(today),
        num_written=num_written,
        is_exhausted=today - dt.timedelta(days=1) > calendar.last_day,
    )
