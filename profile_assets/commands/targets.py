"""The commands about what readers see: publish a day again, roll the lookups back, list their versions, look one up."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from profile_assets.errors import AccountingError, DataError, ProfileError
from profile_assets.feature_store import read
from profile_assets.feature_store.settings import BucketSettings, OnlineSettings
from profile_assets.profile import Deployment, open_deployment
from profile_assets.storage.published import BUCKET, ONLINE

if TYPE_CHECKING:  # it brings a lot
    from profile_assets.feature_store.publish import Published

console = Console(highlight=False)


def publish(day: dt.date) -> None:
    """Complete the publication of a day that was scored: every target that is not done yet."""
    done = publish_day(open_deployment(), day)
    for name, target in done.record.targets.items():
        note = f" ({target.note})" if target.note else ""
        console.print(f"[green]✓[/] {day} {name}: {target.state} since {target.at.isoformat(timespec='seconds')}{note}")


def publish_day(deployment: Deployment, day: dt.date) -> Published:
    """The same, of a deployment; gives what it came to."""
    from profile_assets.feature_store import publish as publishing

    done = publishing.publish(
        deployment.layout, day, time_zone=deployment.profile.time_zone, clock=_now, export=deployment.export
    )
    if done.differing:
        raise AccountingError(
            f"{len(done.differing)} lookups of {day} give another value than the table, first {done.differing[0]!r}",
            remedy="roll the lookups back, then look at that store",
        )
    return done


def withdraw(day: dt.date, *, why: str, by: str) -> None:
    """Take a published day back, from the table and from the lookups."""
    from profile_assets.feature_store.withdraw import withdraw as take_away

    deployment = open_deployment()
    layout = deployment.layout
    take_away(layout, day, why=why, by=by, now=_now(), others=_others(deployment))
    console.print(f"{day} is withdrawn; the newest published day is {read.newest_day(layout) or 'none'}")


def undo_withdrawal(day: dt.date) -> None:
    """The withdrawn data was right: let it be published again."""
    from profile_assets.feature_store.withdraw import undo_withdrawal as undo

    deployment = open_deployment()
    undo(deployment.layout, day, others=_others(deployment))
    console.print(f"{day} may be published again: profile-assets backfill {day} {day}")


def rollback() -> None:
    """Make the version before the live one live again."""
    from profile_assets.feature_store import publish_online
    from profile_assets.feature_store.online import open_online

    deployment = open_deployment()
    settings = _online(deployment)
    switch = publish_online.rollback(deployment.layout, open_online(deployment.layout, settings), settings, now=_now())
    before, after = (one.id if one else "nothing" for one in (switch.before, switch.after))
    console.print(f"[green]✓[/] lookups went back from {before} to {after}")


def versions() -> None:
    """What the store of lookups holds, newest first."""
    from profile_assets.feature_store.online import open_online

    deployment = open_deployment()
    store = open_online(deployment.layout, _online(deployment))
    live = store.live()
    table = Table(title=store.where(), title_justify="left")
    for column in ("version", "users", "expired from", "kept"):
        is_whole = column in ("version", "users")  # to be copied; moments may take two lines of a narrow terminal
        table.add_column(column, justify="right" if column == "users" else "left", no_wrap=is_whole, overflow="fold")
    for held in sorted(store.held(), key=lambda one: one.version.age, reverse=True):
        version, is_live = held.version, live is not None and held.version.id == live.id
        kept = "live" if is_live else "for good" if held.until is None else f"until {_minutes(held.until)}"
        table.add_row(version.id, f"{version.rows:,}", _minutes(version.expires_at), kept)
    console.print(table)


def lookup(user: str, day: dt.date | None) -> dict[str, Any]:
    """One user as plain values, `state` among them: by the lookups where the profile has them, else from the table."""
    deployment = open_deployment()
    layout, export = deployment.layout, deployment.export
    if day is not None or export.online is None:
        found = read.lookup(layout, user, day)
        return {"user_id": user, "state": "missing"} if found is None else {"state": "found", **found}
    from profile_assets.feature_store.lookups import lookup as look_up
    from profile_assets.feature_store.online import open_online

    store = open_online(layout, export.online)
    if read.newest_day(layout) is None and store.live() is None:  # the store may outlive the table
        raise DataError(f"nothing of {layout.name} is published", remedy="publish a day first")
    answer = look_up(store, [user], now=_now())[user]
    return {name: value for name, value in dataclasses.asdict(answer).items() if value is not None}


def _others(deployment: Deployment) -> dict[str, Callable[[dt.date], None]]:
    """What takes a day out of the targets beside the table. Each is opened only by then."""
    export = deployment.export
    others: dict[str, Callable[[dt.date], None]] = {}
    if export.online is not None:
        others[ONLINE] = functools.partial(_take_out_of_lookups, deployment, export.online)
    if export.bucket is not None:
        others[BUCKET] = functools.partial(_take_out_of_bucket, deployment, export.bucket)
    return others


def _take_out_of_lookups(deployment: Deployment, settings: OnlineSettings, day: dt.date) -> None:
    from profile_assets.feature_store import publish_online
    from profile_assets.feature_store.online import open_online

    store, time_zone = open_online(deployment.layout, settings), deployment.profile.time_zone
    lookups = publish_online.Lookups(store=store, settings=settings, time_zone=time_zone, clock=_now)
    publish_online.take_out(deployment.layout, lookups, day)


def _take_out_of_bucket(deployment: Deployment, settings: BucketSettings, day: dt.date) -> None:
    from profile_assets.feature_store.bucket import open_bucket

    open_bucket(settings, deployment.profile.name).remove(day)


def _online(deployment: Deployment) -> OnlineSettings:
    if deployment.export.online is None:
        raise ProfileError(
            f"the profile {deployment.profile.name} has no lookups", remedy='set store in [export.online] to "sqlite"'
        )
    return deployment.export.online


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _minutes(moment: dt.datetime) -> str:
    return moment.isoformat(sep=" ", timespec="minutes")
