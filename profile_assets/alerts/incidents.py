"""Runs that failed: noted one file each when Dagster says so, and told together once no more of them come.

A backfill of fifty bad days fails fifty times and is one message. It is sent when nothing failed for a while and the
backfill is over, or after an hour at the latest. A run that Dagster starts again by itself is none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profile_assets.alerts.alert import Alert, days_in_words, local
from profile_assets.errors import CorruptError
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

LONGEST_WAIT = dt.timedelta(hours=1)
_MOST_LINES = 5


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One failed run. `group` is its backfill, if it has one; `day` is None for a run of no day.

    `kind` is "gate_failed" where a check stopped it, else "run_failed"; `reason` names check and numbers, or the error.
    """

    run_id: str
    kind: str
    at: dt.datetime
    job: str
    day: dt.date | None
    stage: str
    reason: str
    remedy: str
    link: str = ""
    group: str = ""

    def to_json(self) -> dict[str, Any]:
        day = None if self.day is None else self.day.isoformat()
        return {"format": FORMAT, **self.__dict__, "at": self.at.isoformat(), "day": day}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Incident:
        fields = {name: value[name] for name in cls.__dataclass_fields__}
        day = None if value["day"] is None else dt.date.fromisoformat(value["day"])
        return cls(**{**fields, "at": dt.datetime.fromisoformat(value["at"]), "day": day})


def note(layout: Layout, incident: Incident) -> None:
    """Remember a failed run until it is told; noted again, it is the same one."""
    atomic.write_json(_path(layout, incident.run_id), incident.to_json(), staging=layout.scratch("records"))


def noted(layout: Layout) -> list[Incident]:
    """Every failed run that waits to be told, oldest first. One that cannot be read is told as that."""
    found: list[Incident] = []
    for path in sorted((layout.alerts / "incidents").glob("*.json")):
        try:
            found.append(Incident.from_json(read_json(path)))
        except (CorruptError, KeyError, TypeError, ValueError) as error:
            at = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
            found.append(_unreadable(path, at, error))
    return sorted(found, key=lambda one: one.at)


def _unreadable(path: Path, at: dt.datetime, error: Exception) -> Incident:
    return Incident(
        run_id=path.stem,
        kind="run_failed",
        at=at,
        job="",
        day=None,
        stage="",
        reason=f"a run failed, and the note of it cannot be read: {error}",
        remedy="look for the failed run in the UI",
    )


def forget(layout: Layout, incidents: Sequence[Incident]) -> None:
    """They are told."""
    for one in incidents:
        atomic.remove_file(_path(layout, one.run_id))


def _path(layout: Layout, run_id: str) -> Path:
    return layout.alerts / "incidents" / f"{run_id}.json"


def groups(
    incidents: Sequence[Incident], *, now: dt.datetime, quiet_s: float, is_going_on: Callable[[str], bool]
) -> Iterator[list[Incident]]:
    """The failures that are to be told now, by backfill; those of no backfill together."""
    by_group: dict[str, list[Incident]] = {}
    for one in incidents:
        by_group.setdefault(one.group, []).append(one)
    for group, found in by_group.items():
        is_quiet = (now - found[-1].at).total_seconds() >= quiet_s and not (group and is_going_on(group))
        if is_quiet or now - found[0].at >= LONGEST_WAIT:
            yield found


def told(name: str, incidents: Sequence[Incident], *, time_zone: str, raised_at: str) -> Alert:
    """One alert for failures that belong together."""
    is_gate = all(one.kind == "gate_failed" for one in incidents)
    first, last = incidents[0], incidents[-1]
    days = tuple(sorted({one.day for one in incidents if one.day is not None}))
    return Alert(
        kind="gate_failed" if is_gate else "run_failed",
        severity="error",
        title=f"{name}: {_title(incidents, days, is_gate=is_gate)}",
        days=days,
        what="\n".join(_lines(incidents)),
        since=local(first.at, time_zone),
        remedy=first.remedy if len({one.remedy for one in incidents}) == 1 else f"for the first: {first.remedy}",
        link=last.link,
        raised_at=raised_at,
    )


def _title(incidents: Sequence[Incident], days: Sequence[dt.date], *, is_gate: bool) -> str:
    if not days:
        jobs = ", ".join(sorted({one.job for one in incidents if one.job})) or "a job"
        return f"{jobs} failed" if len(incidents) == 1 else f"{len(incidents)} runs of {jobs} failed"
    return f"{days_in_words(days)} did not pass the gates" if is_gate else f"{days_in_words(days)} failed"


def _lines(incidents: Sequence[Incident]) -> Iterator[str]:
    """One line for each stage and reason, with its days."""
    by_reason: dict[tuple[str, str], list[dt.date]] = {}
    for one in incidents:
        by_reason.setdefault((one.stage, one.reason), []).extend([one.day] if one.day else [])
    for (stage, reason), days in list(by_reason.items())[:_MOST_LINES]:
        where = ", ".join(part for part in (days_in_words(days), stage) if part)
        yield f"{where}: {reason}" if where else reason
    if len(by_reason) > _MOST_LINES:
        yield f"and {len(by_reason) - _MOST_LINES} other reasons"
