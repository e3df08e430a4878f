"""The demo's calendar: CDNOW's days moved by a whole number of days, chosen once, at the first run.

It is chosen so that 1998-03-31 falls on yesterday: what came before is history, and a new day arrives every night
for three months. `calendar.json` keeps the choice; days are never moved again, or every table would mix two
calendars. "Shown" days are those of the demo, "original" ones those of the file.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from profile_assets.errors import CorruptError
from profile_assets.storage import atomic
from profile_assets.storage.records import FORMAT, read_json
from profile_assets.users.demo_purchases import HORIZON_DAYS, LAST_DAY

LAST_KNOWN_DAY = dt.date(1998, 3, 31)
RECENT_DAYS = 10
TRAINING_FIRST_DAY = dt.date(1997, 5, 1)
TRAINING_LAST_DAY = dt.date(1997, 8, 14)
TRAINING_EVERY_DAYS = 7
SELECTION_DAY = dt.date(1997, 9, 30)
REPORT_DAY = dt.date(1997, 12, 31)

_ONE_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """The shift from original to shown days. `last_known_day` (original) was yesterday at the first run."""

    shift_days: int
    last_known_day: dt.date = LAST_KNOWN_DAY

    def shown(self, original: dt.date) -> dt.date:
        return original + dt.timedelta(days=self.shift_days)

    def original(self, shown: dt.date) -> dt.date:
        return shown - dt.timedelta(days=self.shift_days)

    @property
    def last_day(self) -> dt.date:
        """The last shown day that has purchases."""
        return self.shown(LAST_DAY)

    @property
    def training_days(self) -> tuple[dt.date, ...]:
        """The shown days of the weekly training snapshots."""
        span = (TRAINING_LAST_DAY - TRAINING_FIRST_DAY).days
        first = self.shown(TRAINING_FIRST_DAY)
        return tuple(first + dt.timedelta(days=days) for days in range(0, span + 1, TRAINING_EVERY_DAYS))

    @property
    def selection_day(self) -> dt.date:
        """The shown day on which training picks its best epoch."""
        return self.shown(SELECTION_DAY)

    @property
    def report_days(self) -> tuple[dt.date, ...]:
        """The shown days on which the trained model is measured."""
        return (self.shown(REPORT_DAY),)

    def users_days(self, today: dt.date) -> tuple[dt.date, ...]:
        """The shown days whose profiles are there on `today`, sorted; a day is there once it has ended."""
        newest = min(today - _ONE_DAY, self.last_day)
        first = self.shown(self.last_known_day) - (RECENT_DAYS - 1) * _ONE_DAY
        recent = (first + dt.timedelta(days=days) for days in range((newest - first).days + 1))
        days = {*self.training_days, self.selection_day, *self.report_days, *recent}
        return tuple(sorted(day for day in days if day <= newest))

    def label_days(self, today: dt.date) -> tuple[dt.date, ...]:
        """Those of `users_days` whose thirtieth day after has ended, and lies within the purchases."""
        newest = min(today - _ONE_DAY, self.last_day) - dt.timedelta(days=HORIZON_DAYS)
        return tuple(day for day in self.users_days(today) if day <= newest)


def choose_shift(today: dt.date) -> int:
    """The days to move, such that 1998-03-31 falls on the day before `today`."""
    return (today - _ONE_DAY - LAST_KNOWN_DAY).days


def load_calendar(path: Path) -> Calendar:
    """The calendar that an earlier run chose. CorruptError where the file is not one."""
    value = read_json(path)
    try:
        return Calendar(
            shift_days=int(value["shift_days"]), last_known_day=dt.date.fromisoformat(value["last_known_day"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(
            f"{path} lacks or bends {error}", remedy=f"remove {path.parent} as a whole and prepare the demo again"
        ) from error


def save_calendar(path: Path, calendar: Calendar, *, staging: Path) -> None:
    """Keep the choice, in one rename."""
    value = {
        "format": FORMAT,
        "shift_days": calendar.shift_days,
        "last_known_day": calendar.last_known_day.isoformat(),
    }
    atomic.write_json(path, value, staging=staging)
