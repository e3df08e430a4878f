"""What was told and is not over: each thing that is wrong is told once when it begins and once when it is over.

One that becomes more severe is told again as that, since others may have to know of it.

Days that are missing in a row are one episode; a day that goes missing after one that was there begins another, so that
an old hole nobody fills does not keep later ones quiet. Pure: problems and open episodes in, what to tell out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profile_assets.alerts.alert import Alert, days_in_words, lines_of
from profile_assets.alerts.problems import PLACES, START, Problem
from profile_assets.alerts.settings import SEVERITIES, Kind, Severity
from profile_assets.storage.layout import RECONCILE
from profile_assets.storage.published import BUCKET, OFFLINE, ONLINE

ONE_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Episode:
    """`days` are those still wrong, `all_days` those that ever were. `letter` is the letter that tells of it, and
    `is_told` whether any channel took that.
    """

    topic: str
    kind: Kind
    severity: Severity
    days: tuple[dt.date, ...]
    all_days: tuple[dt.date, ...]
    since: str
    letter: str
    is_told: bool = False

    def to_json(self) -> dict[str, Any]:
        days = {name: [day.isoformat() for day in getattr(self, name)] for name in ("days", "all_days")}
        return {**self.__dict__, **days}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Episode:
        days = {name: tuple(map(dt.date.fromisoformat, value[name])) for name in ("days", "all_days")}
        return cls(**{**value, **days})


@dataclass(frozen=True, kw_only=True)
class Step:
    """The episodes that stay open, and by topic the problems that begin one and the episodes that are over."""

    going_on: tuple[Episode, ...]
    begun: Mapping[str, tuple[Problem, ...]]
    over: Mapping[str, tuple[Episode, ...]]


def step(episodes: Sequence[Episode], problems: Sequence[Problem]) -> Step:
    """Sort every problem into an open episode or a new one."""
    homes: list[list[Problem]] = [[] for _ in episodes]
    begun: dict[str, list[Problem]] = {}
    over: dict[str, list[Episode]] = {}
    for problem in sorted(problems, key=lambda one: (one.topic, one.day)):
        home = next((n for n, one in enumerate(episodes) if _belongs(problem, one, homes[n])), None)
        (begun.setdefault(problem.topic, []) if home is None else homes[home]).append(problem)
    going_on: list[Episode] = []
    for one, found in zip(episodes, homes, strict=True):
        if not found:
            over.setdefault(one.topic, []).append(one)
        elif SEVERITIES.index(_worst(found).severity) > SEVERITIES.index(one.severity):
            begun[one.topic] = sorted([*begun.get(one.topic, []), *found], key=lambda problem: problem.day)
        else:
            going_on.append(_with_days(one, found))
    return Step(
        going_on=tuple(going_on),
        begun={topic: tuple(found) for topic, found in begun.items()},
        over={topic: tuple(found) for topic, found in over.items()},
    )


def _with_days(episode: Episode, found: Sequence[Problem]) -> Episode:
    days = {one.day for one in found}
    return replace(episode, days=tuple(sorted(days)), all_days=tuple(sorted({*episode.all_days, *days})))


def _belongs(problem: Problem, episode: Episode, joined: Sequence[Problem]) -> bool:
    if problem.topic != episode.topic:
        return False
    known = {*episode.days, *(one.day for one in joined)}
    return not problem.is_chained or problem.day in known or problem.day - ONE_DAY in known


def episodes_of(problems: Sequence[Problem], letter: str) -> list[Episode]:
    """The episodes that these problems of one topic begin: one for each run of days."""
    runs: list[list[Problem]] = []
    for problem in problems:
        if runs and (not problem.is_chained or problem.day - runs[-1][-1].day <= ONE_DAY):
            runs[-1].append(problem)
        else:
            runs.append([problem])
    worst = _worst(problems)
    return [
        Episode(
            topic=run[0].topic,
            kind=worst.kind,
            severity=worst.severity,
            days=tuple(one.day for one in run),
            all_days=tuple(one.day for one in run),
            since=run[0].since,
            letter=letter,
        )
        for run in runs
    ]


def _worst(problems: Sequence[Problem]) -> Problem:
    """The one that names the message: the most severe; of late sources and other causes, the other."""
    return max(problems, key=lambda one: (SEVERITIES.index(one.severity), one.kind != "source_late"))


def beginning(name: str, problems: Sequence[Problem], *, raised_at: str, link: str) -> Alert:
    """One alert for all problems of a topic that began together."""
    worst = _worst(problems)
    days = tuple(one.day for one in problems)
    return Alert(
        kind=worst.kind,
        severity=worst.severity,
        title=f"{name}: {_title(worst, days)}",
        days=days,
        what=lines_of({one.day: one.reason for one in problems}),
        since=problems[0].since,
        remedy=worst.remedy,
        link=link,
        raised_at=raised_at,
    )


def _title(worst: Problem, days: Sequence[dt.date]) -> str:
    told = days_in_words(days)
    is_one = len(set(days)) == 1
    place = PLACES.get(worst.topic, "")
    return {
        "stale": f"stale, {told} {'is' if is_one else 'are'} not {place}",
        "source_late": f"stale, the source of {told} is late",
        "pending_target": f"{told} {'waits' if is_one else 'wait'} to be {place}",
        "quarantine": f"many rows of {told} were set aside",
        "not_reconciled": f"{told} is not what scoring it in full gives",
        "drift": f"{worst.topic.removeprefix('drift ')} warns on {told}",
        **({"unjudged": f"it cannot be told whether {told} is {place}"} if place else {}),
        **({"unjudged": "no day is due, for start_day is still to come"} if worst.topic == START else {}),
    }.get(worst.kind, f"{worst.kind.replace('_', ' ')}, {told}")


def ending(name: str, episodes: Sequence[Episode], *, raised_at: str, link: str) -> Alert:
    """One alert for all episodes of a topic that were over together."""
    worst = max(episodes, key=lambda one: SEVERITIES.index(one.severity))
    days = tuple(sorted({day for one in episodes for day in one.all_days}))
    return Alert(
        kind=worst.kind,
        severity=worst.severity,
        title=f"{name}: {_over(worst, days)}",
        days=days,
        what="It is over; nothing needs to be done.",
        since=f"{min(one.since for one in episodes)}, until {raised_at}",
        link=link,
        is_recovery=True,
    )


def _over(worst: Episode, days: Sequence[dt.date]) -> str:
    told = days_in_words(days)
    is_one = len(days) == 1
    return {
        OFFLINE: f"{told} {'is' if is_one else 'are'} published",
        ONLINE: f"{told} {'is' if is_one else 'are'} online, or a newer day is",
        BUCKET: f"{told} {'is' if is_one else 'are'} on S3",
        RECONCILE: f"{told} was published again or withdrawn, or the newest day reconciled",
        "quarantine": "few rows are set aside again",
        START: "start_day is corrected, or has come",
        "unjudged": "freshness can be judged again",
    }.get(worst.topic, f"{worst.topic.removeprefix('drift ')} no longer warns")
