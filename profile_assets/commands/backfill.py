"""`profile-assets backfill`: many days in one process, one Dagster run a day, the model loaded once.

Days that are published, under a verdict and in every target, are left alone, so that the same command again takes up
what failed or is missing. A day that only lacks its record, or a target beside the table, is not scored again for that.
A day that fails holds up no other; whoever stops the command stops all of it.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from profile_assets.commands.targets import publish_day
from profile_assets.errors import CorruptError, DataError, GateError, ProfileAssetsError, ProfileError, StorageError
from profile_assets.feature_store.live import ask
from profile_assets.feature_store.publish_online import ROLLED_BACK
from profile_assets.models.choosing import STABLE, require_model
from profile_assets.profile import Deployment, open_deployment
from profile_assets.quality.standing import Standing, standing
from profile_assets.storage.published import read_part_record

if TYPE_CHECKING:  # it brings Dagster
    from profile_assets.orchestration.launch import Session

ONE_DAY = dt.timedelta(days=1)
_SPEED_OF_S = 6 * 3600  # a day may take many minutes, and its speed is still the one to reckon with
console = Console(highlight=False)


def backfill(first: dt.date, last: dt.date, *, again: bool, model: str = STABLE) -> None:
    """Each day of a range, oldest first; days that count as published are skipped unless `again`.

    `model`: today's stable one, as-of for what was stable when each day was due, or a bundle's id.
    An error that says what to do where any day failed, once all were tried.
    """
    require_model(model)
    deployment = open_deployment()
    days, incomplete = _wanted(deployment, first, last, again=again)
    if not days and not incomplete:
        console.print(f"[green]✓[/] {first} to {last}: published already")
        return
    failed: dict[dt.date, ProfileAssetsError] = {}
    if days:
        from profile_assets.orchestration.launch import session

        with session(deployment) as runs, _progress() as bar:
            failed = _score_all(runs, days, model, bar)
            failed |= _complete_all(deployment, incomplete)
            runs.judge_freshness()
    else:
        failed = _complete_all(deployment, incomplete)
    days = [*days, *incomplete]
    if len(failed) == 1:
        raise next(iter(failed.values()))
    if failed:
        named = ", ".join(map(str, failed))
        error = next(iter(failed.values()))
        raise DataError(
            f"{len(failed)} of {len(days)} days failed ({named}); the first: {error.what}",
            remedy=f"{error.remedy}; the same command takes up the days that failed",
        )


def _score_all(runs: Session, days: Sequence[dt.date], model: str, bar: Progress) -> dict[dt.date, ProfileAssetsError]:
    """Run every day; gives those that failed. KeyboardInterrupt where somebody stops the command."""
    failed: dict[dt.date, ProfileAssetsError] = {}
    task, began = bar.add_task("", total=len(days)), time.monotonic()
    for done, day in enumerate(days):
        bar.update(task, description=f"scoring {day}")
        try:
            runs.score(day, model=model)
        except (DataError, StorageError) as error:  # the other days go on
            failed[day] = error
            bar.console.print(f"[red]✗[/] {day}: {escape(error.what)}")
        except KeyboardInterrupt:
            bar.console.print(
                f"[red]✗[/] interrupted while scoring {day}; {done} of {len(days)} days are done. "
                "The same command goes on where it stopped"
            )
            raise
        else:
            told = f"{_rows(runs.deployment, day):,} users published"
            bar.console.print(f"[green]✓[/] {day}: {told}{_time_left(done + 1, len(days), time.monotonic() - began)}")
        bar.advance(task)
    return failed


def _complete_all(deployment: Deployment, days: Mapping[dt.date, str]) -> dict[dt.date, ProfileAssetsError]:
    """Publish days that the table has to where they are missing; gives those that failed."""
    failed: dict[dt.date, ProfileAssetsError] = {}
    for day, why in days.items():
        try:
            publish_day(deployment, day)
        except (DataError, StorageError, GateError, CorruptError) as error:
            failed[day] = error
            console.print(f"[red]✗[/] {day}: {escape(error.what)}")
        else:
            console.print(f"[green]✓[/] {day}: completed; {escape(why)}")
    return failed


def _time_left(done: int, total: int, seconds: float) -> str:
    """`; 4 of 30, about 12 min left`; nothing for the last day."""
    if done == total:
        return ""
    left = seconds / done * (total - done)
    about = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min" if left < 5400 else f"{left / 3600:.1f} h"
    return f"; {done} of {total}, about {about} left"


def _wanted(
    deployment: Deployment, first: dt.date, last: dt.date, *, again: bool
) -> tuple[list[dt.date], dict[dt.date, str]]:
    """The days to run, and those that count and lack something beside the table, with what that is."""
    start, newest = deployment.profile.start_day, deployment.today() - ONE_DAY
    if start > newest:
        raise ProfileError(
            f"no day can be run yet: the profile's start_day is {start}", remedy="correct start_day, or wait for it"
        )
    if first < start or last > newest or first > last:
        raise ProfileError(f"{first} to {last} is not within {start} to {newest}", remedy="choose days in that range")
    days = [first + n * ONE_DAY for n in range((last - first).days + 1)]
    if again:
        return days, {}
    live = None if deployment.export.online is None else ask(deployment.layout, deployment.export.online)
    stands = standing(deployment.layout, live)
    lacking = {day: why for day in days if day in stands.days and (why := _lacks(deployment, stands, day)) is not None}
    return [day for day in days if day not in stands.days], lacking


def _lacks(deployment: Deployment, stands: Standing, day: dt.date) -> str | None:
    """What a day that counts lacks beside the table. What was rolled back by hand lacks nothing."""
    if not deployment.layout.publish_record(day).exists():
        return "it had no publish record"
    if stands.trouble and stands.is_served_known and day == max(stands.days_in_table):
        return stands.trouble
    for target, days in stands.pending.items():
        if day in days and target in deployment.watch.targets and not days[day][1].startswith(ROLLED_BACK):
            return f"{target} was pending"
    return None


def _rows(deployment: Deployment, day: dt.date) -> int:
    record = read_part_record(deployment.layout, day)
    if record is None:
        raise ProfileError(f"{day} is not published", remedy=f"run `profile-assets backfill {day} {day}`")
    return record.rows


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True, speed_estimate_period=_SPEED_OF_S)
