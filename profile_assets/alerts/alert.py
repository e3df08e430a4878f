"""One alert, as a value, as JSON, and as the text that people read.

Every text has the same parts (which day, what, since when, what to do, where to look) and fits into the shortest
message that a channel takes: 2048 bytes of WeCom, title included.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profile_assets.alerts.settings import Kind, Severity
from profile_assets.storage.days import zone

MAX_BYTES = 1800  # title and body together
_MAX_TITLE_BYTES = 240


@dataclass(frozen=True, kw_only=True)
class Alert:
    """What is told. `since` and `raised_at` are moments in the profile's zone, as text.

    The good news that something is over (`is_recovery`) has the severity of the bad: it goes to the same people.
    """

    kind: Kind
    severity: Severity
    title: str
    days: tuple[dt.date, ...] = ()
    what: str
    since: str = ""
    remedy: str = ""
    link: str = ""
    raised_at: str = ""
    is_recovery: bool = False

    @property
    def headline(self) -> str:
        """The title as it is sent, its severity first."""
        mark = "RECOVERED" if self.is_recovery else "OK" if self.kind == "all_well" else self.severity.upper()
        return _cut(f"[{mark}] {self.title}", _MAX_TITLE_BYTES)

    @property
    def body(self) -> str:
        """The rest as it is sent; what is too long is cut in the middle part, never in what to do."""
        after = [
            f"{name}: {value}"
            for name, value in (
                ("Since", self.since),
                ("What to do", self.remedy),
                ("Link", self.link),
                ("Raised", self.raised_at),
            )
            if value
        ]
        tail = "\n".join(["", *after]) if after else ""
        room = MAX_BYTES - len(self.headline.encode()) - len(tail.encode())
        return _cut(self.what, max(room, 200)) + tail

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "days": [day.isoformat() for day in self.days]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Alert:
        return cls(**{**value, "days": tuple(dt.date.fromisoformat(day) for day in value["days"])})


def _cut(text: str, size_bytes: int) -> str:
    """The text, cut at a whole character and marked where it is longer than so many bytes."""
    data = text.encode()
    if len(data) <= size_bytes:
        return text
    return data[: max(size_bytes - 4, 0)].decode(errors="ignore").rstrip() + " …"


def days_in_words(days: Sequence[dt.date]) -> str:
    """`2026-01-05`, `2026-01-05 and 2026-01-07`, `50 days (2025-11-01 to 2025-12-20)`."""
    ordered = sorted(set(days))
    if len(ordered) <= 2:
        return " and ".join(map(str, ordered))
    return f"{len(ordered)} days ({ordered[0]} to {ordered[-1]})"


def lines_of(told: Mapping[dt.date, str], *, most: int = 6) -> str:
    """One line for each reason with the days that have it, the oldest first."""
    by_reason: dict[str, list[dt.date]] = {}
    for day, reason in sorted(told.items()):
        by_reason.setdefault(reason, []).append(day)
    lines = [f"{days_in_words(days)}: {reason}" for reason, days in by_reason.items()]
    more = [f"and {len(lines) - most} other reasons"] if len(lines) > most else []
    return "\n".join([*lines[:most], *more])


def local(moment: dt.datetime, time_zone: str) -> str:
    """A moment as the profile's people read it."""
    return f"{moment.astimezone(zone(time_zone)):%Y-%m-%d %H:%M} {time_zone}"
