"""One look: what is wrong, what of it is news, and its delivery. A sensor calls it on a clock; so may anything else.

What is news becomes a letter in the book, which is on the disk before anything is sent. An episode counts as told only
once a channel took its letter; one whose letter was given up is told anew while it lasts. Where nothing can be judged,
that itself is told, and what was open stays open.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from profile_assets.alerts import book as books
from profile_assets.alerts import incidents, outbox
from profile_assets.alerts.alert import Alert, local
from profile_assets.alerts.book import Book, FinishedRun
from profile_assets.alerts.episodes import beginning, ending, episodes_of, step
from profile_assets.alerts.heartbeat import beat
from profile_assets.alerts.metrics import write_metrics
from profile_assets.alerts.morning import all_well
from profile_assets.alerts.problems import (
    Problem,
    differing,
    late_start,
    set_aside,
    stale_days,
    waiting_targets,
    warned_checks,
)
from profile_assets.alerts.settings import AlertSettings, Channel, open_channels
from profile_assets.alerts.wire import Answer, send
from profile_assets.errors import ProfileAssetsError
from profile_assets.feature_store.live import ask
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.quality.freshness import DueRule, Judgement, judge_freshness
from profile_assets.storage.days import zone
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import BUCKET, OFFLINE, ONLINE
from profile_assets.users.source import SourceSettings

UNJUDGED = "unjudged"


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is watched, and who is told."""

    layout: Layout
    rule: DueRule
    source: SourceSettings
    online: OnlineSettings | None = None
    has_copy: bool = False
    settings: AlertSettings

    @property
    def name(self) -> str:
        return self.layout.name

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that the profile has, by the names that publish records have for them."""
        return (OFFLINE, *([ONLINE] if self.online else []), *([BUCKET] if self.has_copy else []))

    @property
    def link(self) -> str:
        """Where the published table stands in the UI."""
        url = self.settings.ui_url
        return "" if url is None else f"{url.rstrip('/')}/assets/{self.name}/published_scores"

    def judge(self, now: dt.datetime) -> Judgement:
        """The store of lookups is asked each time: what lies there may be lost while every record stands."""
        live = None if self.online is None else ask(self.layout, self.online)
        return judge_freshness(self.layout, self.rule, now, live=live, has_copy=self.has_copy, source=self.source)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What only Dagster knows. Without it no run is retried, no backfill goes on, and no run is the last."""

    is_retried: Callable[[str], bool] = lambda _: False
    is_going_on: Callable[[str], bool] = lambda _: False
    last: FinishedRun | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a look came to: the open episodes in words, letters delivered, and letters that still wait."""

    open: tuple[str, ...]
    delivered: int
    waiting: int

    def __str__(self) -> str:
        told = "; ".join(self.open) or "nothing is wrong"
        return f"{told} | {self.delivered} delivered, {self.waiting} waiting"


def look(watch: Watch, *, now: dt.datetime, environment: Mapping[str, str], runs: Runs | None = None) -> Seen:
    """Look once at `now`, an aware moment. Channels are those that the environment names."""
    runs = runs or Runs()
    channels = open_channels(watch.settings.channels, environment)
    layout = watch.layout
    with books.opened(layout) as book:
        save = books.Saver(layout, book)
        book.last_run = runs.last or book.last_run
        judged = _note_problems(watch, book, channels, now=now)
        told = _note_incidents(watch, book, channels, now=now, runs=runs)
        if judged is not None:
            _note_morning(watch, book, judged, channels, now=now)
        save()
        incidents.forget(layout, told)
        delivered = outbox.deliver(book, channels, now=now, send=partial(_send, now=now), save=save)
        beat(layout, watch.settings.heartbeat_url_env, environment, book, now=now)
        save()
        write_metrics(layout, watch.settings.metrics_file, watch.rule, judged, book, now=now)
        open_now = tuple(_in_words(book))
        return Seen(open=open_now, delivered=len(delivered), waiting=len(book.letters))


def _send(channel: Channel, alert: Alert, *, now: dt.datetime) -> Answer:
    return send(channel.url, alert, now=now)


def _in_words(book: Book) -> list[str]:
    return [
        f"{one.topic} {one.kind} since {one.since}{'' if one.is_told else ' (not told yet)'}" for one in book.episodes
    ]


def _problems(watch: Watch, judged: Judgement, now: dt.datetime) -> list[Problem]:
    """What is wrong now. A record that cannot be read for one kind of problem hides none of another kind."""
    layout, rule, settings = watch.layout, watch.rule, watch.settings
    looks: list[Callable[[], Iterator[Problem]]] = [
        lambda: stale_days(layout, rule, judged),
        lambda: late_start(rule, judged, now),
        lambda: waiting_targets(rule, judged, now, patience_s=settings.pending_minutes * 60),
        lambda: set_aside(layout, rule, now, limit=settings.max_quarantine_rate),
        lambda: warned_checks(layout, rule, judged, now),
        lambda: differing(layout, rule, now),
    ]
    found: list[Problem] = []
    unreadable: list[Problem] = []
    for look in looks:
        try:
            found += look()
        except ProfileAssetsError as error:
            unreadable.append(_unjudged(watch, error, now, "not everything can be judged"))
    return [*found, *unreadable[:1]]


def _note_problems(watch: Watch, book: Book, channels: Sequence[Channel], *, now: dt.datetime) -> Judgement | None:
    """Write letters of what began and what is over; None where nothing could be judged.

    While anything cannot be judged nothing is over: it might be what is not seen.
    """
    _reopen_what_nobody_took(book)
    judged: Judgement | None = None
    try:
        judged = watch.judge(now)
        problems = _problems(watch, judged, now)
    except ProfileAssetsError as error:
        judged, problems = None, [_unjudged(watch, error, now)]
    happened = step(book.episodes, problems)
    is_partial = any(one.topic == UNJUDGED for one in problems)
    at = local(now, watch.rule.time_zone)
    book.episodes = [*happened.going_on]
    for over in happened.over.values():
        if is_partial:
            book.episodes += over
            continue
        outbox.put(book, ending(watch.name, over, raised_at=at, link=watch.link), channels, now=now)
    for begun in happened.begun.values():
        alert = beginning(watch.name, begun, raised_at=at, link=watch.link)
        letter = outbox.put(book, alert, channels, now=now)
        new = episodes_of(begun, letter.id)
        # Where nobody wants to be told of such a thing, there is nothing to wait for.
        book.episodes += new if letter.waiting else [dataclasses.replace(one, is_told=True) for one in new]
    return judged


def _reopen_what_nobody_took(book: Book) -> None:
    """Episodes whose letter was given up before any channel took it are forgotten, and so told anew while they last."""
    on_their_way = {letter.id for letter in book.letters}
    book.episodes = [one for one in book.episodes if one.is_told or one.letter in on_their_way]


def _unjudged(
    watch: Watch, error: ProfileAssetsError, now: dt.datetime, what: str = "freshness cannot be judged"
) -> Problem:
    at = now.astimezone(dt.UTC)
    return Problem(
        topic=UNJUDGED,
        kind="unjudged",
        severity="error",
        day=at.date(),
        reason=f"{what}: {error.what}",
        since=local(now, watch.rule.time_zone),
        remedy=error.remedy,
    )


def _note_incidents(
    watch: Watch, book: Book, channels: Sequence[Channel], *, now: dt.datetime, runs: Runs
) -> list[incidents.Incident]:
    """Write letters of failed runs; gives the notes that are not needed any more."""
    known = frozenset(book.told)
    found = incidents.noted(watch.layout)
    done = [one for one in found if one.run_id in known or runs.is_retried(one.run_id)]
    rest = [one for one in found if one not in done]
    quiet_s = watch.settings.group_minutes * 60
    at = local(now, watch.rule.time_zone)
    for group in incidents.groups(rest, now=now, quiet_s=quiet_s, is_going_on=runs.is_going_on):
        alert = incidents.told(watch.name, group, time_zone=watch.rule.time_zone, raised_at=at)
        outbox.put(book, alert, channels, now=now)
        book.told += [one.run_id for one in group]
        done += group
    return done


def _note_morning(
    watch: Watch, book: Book, judged: Judgement, channels: Sequence[Channel], *, now: dt.datetime
) -> None:
    """Once a day, from the wanted hour on: one line, if all is well."""
    hour, clock = watch.settings.morning_hour, now.astimezone(zone(watch.rule.time_zone))
    today = clock.date().isoformat()
    if hour is None or clock.hour < hour or book.morning == today:
        return
    book.morning = today
    if judged.state == "fresh" and not any(one.severity == "error" for one in book.episodes):
        outbox.put(book, all_well(watch.layout, judged, book, link=watch.link), channels, now=now)
