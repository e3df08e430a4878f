"""`profile-assets status`: where each day stands, as a table or as JSON, and what there is to do about it."""

from __future__ import annotations

import datetime as dt
import json

from rich import box
from rich.console import Console
from rich.table import Table

from profile_assets.models.choosing import is_later
from profile_assets.profile import Deployment, open_deployment
from profile_assets.quality.freshness import due_at, starts_beyond
from profile_assets.quality.standing import Standing, standing
from profile_assets.storage.layout import ROWS
from profile_assets.storage.published import Live
from profile_assets.upkeep.days import DayState, StageState, day_states

ONE_DAY = dt.timedelta(days=1)
COLUMNS = ("day", "raw", "shards", "scores", "verdict", "offline", "online", "age", "bundle", "locked by")
NARROW = 8  # columns that fit a terminal of 80
WIDE = 118
_NUMBERS = ("raw", "shards", "scores", "age")
_LATER = "scored by a model that did not exist yet when the day was due"
_PRUNED = "* pruned: the rows are gone by [retention]; what was published stays"
_COLOURS = {"done": "green", "pending": "yellow", "damaged": "red", "lost": "red", "unknown": "red"}
console = Console(highlight=False)


def status(days: int, *, as_json: bool) -> None:
    """The newest days up to yesterday, oldest first."""
    deployment = open_deployment()
    stands = standing(deployment.layout, _live(deployment))
    states = day_states(deployment.layout, _days(deployment, stands, days), stands)
    later = {one.day for one in states if _is_later(deployment, one)}
    if as_json:
        told = [{**one.to_json(), "model_did_not_exist_yet": one.day in later} for one in states]
        console.print_json(json.dumps(told))
        return
    is_wide = console.width >= WIDE
    _print_table(deployment, states, is_wide=is_wide)
    beyond = starts_beyond(deployment.due_rule, dt.datetime.now(dt.UTC), stands.days_in_table)
    if beyond:
        console.print(f"{beyond}; correct start_day in the profile", markup=False)
    if stands.trouble:
        again = f"; profile-assets publish {max(stands.days_in_table)}" if stands.is_served_known else ""
        console.print(f"lookups: {stands.trouble}{again}", markup=False)
    for state in states:
        held = [f"locked: {what} by {who}" for what, who in state.locks.items() if not is_wide]
        for line in [*_remarks(state), *held, *([_LATER] if state.day in later else [])]:
            console.print(f"{state.day}: {line}", markup=False)


def _days(deployment: Deployment, stands: Standing, count: int) -> list[dt.date]:
    """The newest days up to yesterday; of those before the profile's first, the ones that the table has."""
    newest = deployment.today() - ONE_DAY
    days = (newest - n * ONE_DAY for n in reversed(range(count)))
    return [day for day in days if day >= deployment.profile.start_day or day in stands.days_in_table]


def _print_table(deployment: Deployment, states: list[DayState], *, is_wide: bool) -> None:
    now = dt.datetime.now(dt.UTC)
    table = Table(title=f"{deployment.profile.name}: {deployment.where}", title_justify="left")
    if not is_wide:
        table.box, table.pad_edge, table.padding = box.SIMPLE_HEAD, False, (0, 1, 0, 0)
    for column in COLUMNS if is_wide else COLUMNS[:NARROW]:
        width = len("2026-01-05") if column == "day" else None
        table.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=True, min_width=width)
    for state in states:
        table.add_row(*_cells(state, now, is_wide=is_wide)[: len(table.columns)])
    console.print(table)
    if any(stage.presence == "pruned" for state in states for stage in state.stages.values()):
        console.print(_PRUNED, markup=False)


def _is_later(deployment: Deployment, state: DayState) -> bool:
    """Whether a day was scored by a model that was made after it was due."""
    due = due_at(state.day, deployment.due_rule)
    return state.bundle_id is not None and bool(is_later(deployment.layout, state.bundle_id, due))


def _cells(state: DayState, now: dt.datetime, *, is_wide: bool) -> list[str]:
    stages = [_stage_cell(state.stages[stage], is_wide=is_wide) for stage in ROWS]
    verdict = {"passed": "[green]passed[/]", "stopped": "[red]stopped[/]"}.get(state.verdict, _plain(state.verdict))
    if state.released and state.verdict == "passed":
        verdict = "[yellow]released[/]"
    offline = "[yellow]withdrawn[/]" if state.withdrawn is not None else _target_cell(state.offline)
    age = "" if state.published_at is None or state.withdrawn is not None else _ago(now - state.published_at)
    held = ", ".join(f"{what}: {who}" for what, who in state.locks.items())
    return [str(state.day), *stages, verdict, offline, _target_cell(state.online), age, state.bundle_id or "", held]


def _stage_cell(stage: StageState, *, is_wide: bool) -> str:
    if stage.presence == "there":
        return _count(stage.rows or 0, is_wide=is_wide)
    if stage.presence == "pruned":
        return f"[dim]{_count(stage.rows or 0, is_wide=is_wide)}*[/]"
    return {"none": "—", "staged": "[yellow]staged[/]"}.get(stage.presence, f"[red]{stage.presence}[/]")


def _count(rows: int, *, is_wide: bool) -> str:
    """All of the number where there is room: `10,250,000`, else `10.25M`."""
    return f"{rows:,}" if is_wide or rows < 1_000_000 else f"{rows / 1e6:,.2f}M"


def _target_cell(state: str) -> str:
    colour = _COLOURS.get(state)
    return _plain(state) if colour is None else f"[{colour}]{state}[/]"


def _plain(state: str) -> str:
    return "—" if state == "none" else state


def _ago(age: dt.timedelta) -> str:
    """`3 d`, `5 h` or `12 min`, whichever says most."""
    minutes = max(0, int(age.total_seconds() // 60))
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def _remarks(state: DayState) -> list[str]:
    """What a person has to know or do about a day."""
    remarks = [f"withdrawn: {state.withdrawn}"] if state.withdrawn is not None else []
    if state.not_counted is not None and state.withdrawn is None:
        remarks.append(f"does not count: it {state.not_counted}; profile-assets backfill {state.day} {state.day}")
    remarks += _told_of_verdict(state)
    if state.released:
        remarks.append(f"released: {', '.join(state.released)}")
    if state.pending and state.withdrawn is None:
        note = f" ({state.online_note})" if state.online_note else ""
        remarks.append(f"pending: {', '.join(state.pending)}{note}; profile-assets publish {state.day}")
    return remarks + _lost(state)


def _lost(state: DayState) -> list[str]:
    """What was there once and is not, or cannot be read, with what mends it or says more."""
    remarks = []
    if state.offline == "done" and not state.has_record:
        remarks.append(f"no publish record; profile-assets publish {state.day}")
    gone = [name for name, stage in state.stages.items() if stage.presence == "gone"]
    if gone:
        remarks.append(f"gone: {', '.join(gone)}; profile-assets backfill {state.day} {state.day} --again")
    damaged = [name for name, stage in state.stages.items() if stage.presence == "damaged"]
    damaged += [name for name in ("verdict", "offline") if getattr(state, name) == "damaged"]
    if damaged:
        remarks.append(f"damaged: {', '.join(damaged)}; profile-assets verify {state.day}")
    return remarks


def _told_of_verdict(state: DayState) -> list[str]:
    """The checks that stopped the day, or a later run of a day that is published."""
    stopped = f"stopped by {', '.join(state.stopped_by)}" if state.stopped_by else ""
    if not state.is_rerun:
        return [stopped] if stopped else []
    told = f"was {stopped}" if stopped else "has published nothing"
    return [f"a later run {told}; what is published stands"]


def _live(deployment: Deployment) -> Live | None:
    if deployment.export.online is None:
        return None
    from profile_assets.feature_store.live import ask

    return ask(deployment.layout, deployment.export.online)
