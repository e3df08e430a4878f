"""Moments of a day in the profile's one named zone.

Days are dates; a moment is reached by wall-clock arithmetic in the zone and then held in UTC, so that days of 23
and 25 hours end when the clock on the wall says so.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo

from profile_assets.errors import PermanentError, ProfileError


def zone(time_zone: str) -> zoneinfo.ZoneInfo:
    """The zone of that name (IANA, such as "Europe/Berlin")."""
    try:
        return zoneinfo.ZoneInfo(time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ProfileError(
            f"there is no time zone {time_zone!r}", remedy='name one of the IANA list, such as "Europe/Berlin"'
        ) from error


def wall_clock(day: dt.date, hours: float, time_zone: str) -> dt.datetime:
    """The moment, in UTC, at which the clock shows `hours` counted from the day's midnight; 24 and more run on.

    Where the clock skips that time, the moment is taken with the offset before the change; where it shows it twice,
    the first.
    """
    local = dt.datetime.combine(day, dt.time()) + dt.timedelta(hours=hours)
    return local.replace(tzinfo=zone(time_zone)).astimezone(dt.UTC)


def day_end(day: dt.date, time_zone: str) -> dt.datetime:
    """The moment, in UTC, at which the day is over: the next day's midnight."""
    return wall_clock(day, 24, time_zone)


def as_utc(moment: dt.datetime) -> dt.datetime:
    """The same moment in UTC; PermanentError for one that names no zone."""
    if moment.tzinfo is None:
        raise PermanentError(f"{moment} has no time zone", remedy="pass an aware moment, such as datetime.now(UTC)")
    return moment.astimezone(dt.UTC)
