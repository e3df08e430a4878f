"""Which days can start, which wait for their source, and which are due and still wait. Nothing of Dagster here.

A day may start at the schedule's hour, once its source is ready. What is remembered between two looks (how long a
source has looked as it does, which days were reported) is the `Memory`, which its keeper stores as JSON.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from profile_assets.errors import ProfileAssetsError
from profile_assets.quality.freshness import ONE_DAY, DueRule, due_at
from profile_assets.storage.days import wall_clock, zone
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import published_days
from profile_assets.users.source import SourceSettings
from profile_assets.users.taking import Sighting, sighted

DAYS_BACK = 7


@dataclass(frozen=True, kw_only=True)
class Memory:
    """`seen`: for each waited-for day the digest of its source and when that was first seen; `reported`: late days."""

    seen: Mapping[str, tuple[str, dt.datetime]] = field(default_factory=dict)
    reported: tuple[str, ...] = ()

    def to_text(self) -> str:
        seen = {day: [digest, since.isoformat()] for day, (digest, since) in self.seen.items()}
        return json.dumps({"seen": seen, "reported": list(self.reported)}, sort_keys=True)

    @classmethod
    def from_text(cls, text: str | None) -> Memory:
        value = json.loads(text) if text else {"seen": {}, "reported": []}
        seen = {day: (digest, dt.datetime.fromisoformat(since)) for day, (digest, since) in value["seen"].items()}
        return cls(seen=seen, reported=tuple(value["reported"]))


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A day that is not published. `waits_for` is None where its source is ready; `is_late` once it is due and not."""

    day: dt.date
    digest: str
    waits_for: str | None
    is_late: bool


def unpublished_days(layout: Layout, rule: DueRule, now: dt.datetime) -> Iterator[dt.date]:
    """The days of the last week that may start at `now` and that readers do not see, oldest first."""
    today, published = now.astimezone(zone(rule.time_zone)).date(), frozenset(published_days(layout))
    for back in range(DAYS_BACK, 0, -1):
        day = today - back * ONE_DAY
        if day < rule.start_day or wall_clock(day + ONE_DAY, rule.hour, rule.time_zone) > now:
            continue
        if day not in published:
            yield day


def look(
    layout: Layout, rule: DueRule, source: SourceSettings, now: dt.datetime, memory: Memory
) -> tuple[list[Waiting], Memory]:
    """Every unpublished day as it stands, and what to remember of it."""
    found: list[Waiting] = []
    seen: dict[str, tuple[str, dt.datetime]] = {}
    for day in unpublished_days(layout, rule, now):
        sighting = _sighted(source, day, now)
        before = memory.seen.get(day.isoformat())
        since = before[1] if before is not None and before[0] == sighting.digest else now
        seen[day.isoformat()] = (sighting.digest, since)
        waits_for = sighting.waits_for or _restless(source, (now - since).total_seconds())
        is_late = waits_for is not None and now >= due_at(day, rule)
        found.append(Waiting(day=day, digest=sighting.digest, waits_for=waits_for, is_late=is_late))
    late = {one.day.isoformat() for one in found if one.is_late}
    reported = sorted(late | set(memory.reported) & set(seen))
    return found, Memory(seen=seen, reported=tuple(reported))


def newly_late(found: list[Waiting], memory: Memory) -> list[Waiting]:
    """The late days that were not reported yet."""
    return [one for one in found if one.is_late and one.day.isoformat() not in memory.reported]


def _sighted(source: SourceSettings, day: dt.date, now: dt.datetime) -> Sighting:
    """A source that cannot be looked at is waited for like one that is not there."""
    try:
        return sighted(source, day, now)
    except ProfileAssetsError as error:
        return Sighting(digest="", waits_for=f"cannot be looked at: {error}")


def _restless(source: SourceSettings, still_s: float) -> str | None:
    """Files may carry old times, as copies do: they must also have been seen to lie still."""
    if still_s >= source.stable_for_s:
        return None
    return f"has been seen still for {still_s:.0f} s, and must be for {source.stable_for_s:.0f} s"
