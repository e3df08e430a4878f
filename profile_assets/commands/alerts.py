"""The commands about being told. They read the disk alone, so that they work while Dagster is dead."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator

from rich.console import Console

from profile_assets.alerts import book as books
from profile_assets.alerts.alert import Alert, local
from profile_assets.alerts.metrics import as_text, samples, write_metrics
from profile_assets.alerts.settings import open_channels
from profile_assets.alerts.wire import send
from profile_assets.errors import ProfileError
from profile_assets.profile import open_deployment
from profile_assets.quality.freshness import Judgement

console = Console(highlight=False, soft_wrap=True)


def freshness() -> int:
    """Say how fresh each target is and name the oldest missing day; 1 where any is stale or cannot be told, else 0."""
    judged = open_deployment().watch.judge(_now())
    for line in _lines(judged):
        print(line)
    return 1 if judged.is_alarming else 0


def _lines(judged: Judgement) -> Iterator[str]:
    oldest = f"; oldest missing day {judged.missing[0]}" if judged.missing else ""
    table = judged.table
    yield f"{judged.state}: newest due day {table.newest_due}, newest published {table.newest_published}{oldest}"
    for target, one in judged.targets.items():
        missing = f", {len(one.missing)} due days missing from {one.missing[0]} on" if one.missing else ""
        yield f"  {target}: {one.state}, newest {one.newest_published}{missing}"
    if judged.beyond:
        yield f"  {judged.beyond}; correct start_day in the profile"
    if judged.standing.trouble:
        yield f"  {judged.standing.trouble}"
    for day, why in judged.standing.unproven.items():
        yield f"  {day} does not count: it {why}"
    for day, why in judged.late.items():
        yield f"  {day}: its source {why}"


def alert_test() -> int:
    """Send a test to every address of the profile; 1 unless each took it, else 0."""
    deployment = open_deployment()
    now, name = _now(), deployment.profile.name
    channels = open_channels(deployment.watch.settings.channels, os.environ)
    if not channels:
        raise ProfileError(
            f"the profile {name} names no channel", remedy='add [[alerts.channels]] with url_env = "YOUR_VARIABLE"'
        )
    alert = Alert(
        kind="test",
        severity="info",
        title=f"{name}: this is a test",
        what="Alerts of this profile arrive here.",
        since=local(now, deployment.profile.time_zone),
        remedy="nothing",
        link=deployment.watch.link,
    )
    failures = 0
    for channel in channels:
        answer = send(channel.url, alert, now=now)
        failures += not answer.is_delivered
        mark = "[green]✓[/]" if answer.is_delivered else "[red]✗[/]"
        console.print(f"{mark} ", end="")
        console.print(f"{channel.name}: {answer.verdict}, {answer.said}", markup=False)
    return 1 if failures else 0


def metrics(*, write: bool) -> None:
    """Print the textfile, or replace the one on the disk."""
    watch, now = open_deployment().watch, _now()
    judged, book = watch.judge(now), books.read(watch.layout)
    if write:
        path = write_metrics(watch.layout, watch.settings.metrics_file, watch.rule, judged, book, now=now)
        console.print(str(path), markup=False)
    else:
        print(as_text(samples(watch.layout, watch.rule, judged, book, now=now), profile=watch.name), end="")


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
