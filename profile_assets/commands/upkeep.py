"""The commands that keep things in order, as tables for people: status, verify, prune."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter

from rich import box
from rich.console import Console
from rich.table import Table

from profile_assets.errors import ProfileError
from profile_assets.feature_store.bucket import Bucket
from profile_assets.feature_store.versions import OnlineStore
from profile_assets.models.choosing import is_later
from profile_assets.profile import Deployment, open_deployment
from profile_assets.quality.freshness import due_at
from profile_assets.quality.standing import standing
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS
from profile_assets.storage.published import Live
from profile_assets.upkeep.days import DayState, StageState, day_states
from profile_assets.upkeep.findings import FAULTS
from profile_assets.upkeep.prune import Pruning
from profile_assets.upkeep.verify import DayProof, verify_day

ONE_DAY = dt.timedelta(days=1)
_MARKS = {"right": "[green]✓[/]", **dict.fromkeys(FAULTS, "[red]✗[/]"), "pruned": "[dim]–[/]", "none": "[dim]·[/]"}
_LATER = "scored by a model that did not exist yet when the day was due"
COLUMNS = ("day", "raw", "shards", "scores", "verdict", "offline", "online", "age", "bundle", "locked by")
NARROW = 8  # columns that fit a terminal of 80
WIDE = 118
_NUMBERS = ("raw", "shards", "scores", "age")
console = Console(highlight=False)


def status(days: int, *, as_json: bool) -> None:
    """The newest days up to yesterday, oldest first."""
    deployment = open_deployment()
    newest = deployment.today() - ONE_DAY
    first = max(deployment.profile.start_day, newest - (days - 1) * ONE_DAY)
    stands = standing(deployment.layout, _live(deployment))
    states = day_states(deployment.layout, [first + n * ONE_DAY for n in range((newest - first).days + 1)], stands)
    later = {one.day for one in states if _is_later(deployment, one)}
    if as_json:
        told = [{**one.to_json(), "model_did_not_exist_yet": one.day in later} for one in states]
        console.print_json(json.dumps(told))
        return
    now = dt.datetime.now(dt.UTC)
    is_wide = console.width >= WIDE
    table = Table(title=f"{deployment.profile.name}: {deployment.where}", title_justify="left")
    if not is_wide:
        table.box, table.pad_edge = box.SIMPLE_HEAD, False
    for column in COLUMNS if is_wide else COLUMNS[:NARROW]:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=True)
    for state in states:
        table.add_row(*_cells(state, now)[: len(table.columns)])
    console.print(table)
    if stands.trouble:
        again = f"; profile-assets publish {stands.recorded}" if stands.is_served_known else ""
        console.print(f"lookups: {stands.trouble}{again}", markup=False)
    for state in states:
        held = [f"locked: {what} by {who}" for what, who in state.locks.items() if not is_wide]
        for line in [*_remarks(state), *held, *([_LATER] if state.day in later else [])]:
            console.print(f"{state.day}: {line}", markup=False)


def verify(first: dt.date, last: dt.date) -> bool:
    """Print what was found of each day; whether all of it is right."""
    if last < first:
        raise ProfileError(f"{first} to {last} is no range of days", remedy="give the earlier day first")
    deployment = open_deployment()
    online, bucket, is_right = _online(deployment), _bucket(deployment), True
    for n in range((last - first).days + 1):
        with console.status(f"reading {first + n * ONE_DAY} ..."):
            deployment.pull(first + n * ONE_DAY)
            proof = _verified(deployment, first + n * ONE_DAY, online, bucket)
        _print_proof(proof)
        is_right = is_right and proof.is_right
    return is_right


def prune(*, dry_run: bool) -> None:
    """Remove what is old, or say what is. Days that a run works on are asked of Dagster."""
    from profile_assets.orchestration.pruning import prune_now, what_would_go

    deployment = open_deployment()
    with console.status("looking for what is old ..."):
        done = what_would_go(deployment) if dry_run else prune_now(deployment)
    _print_pruning(done, "would go" if dry_run else "gone")


def _is_later(deployment: Deployment, state: DayState) -> bool:
    """Whether a day was scored by a model that was made after it was due."""
    due = due_at(state.day, deployment.due_rule)
    return state.bundle_id is not None and bool(is_later(deployment.layout, state.bundle_id, due))


def _verified(deployment: Deployment, day: dt.date, online: OnlineStore | None, bucket: Bucket | None) -> DayProof:
    zone = deployment.profile.time_zone
    return verify_day(deployment.layout, day, time_zone=zone, online=online, bucket=bucket)


def _cells(state: DayState, now: dt.datetime) -> list[str]:
    stages = [_stage_cell(state.stages[stage]) for stage in (RAW_USERS, USER_SHARDS, USER_SCORES)]
    verdict = {"passed": "[green]passed[/]", "stopped": "[red]stopped[/]"}.get(state.verdict, _plain(state.verdict))
    if state.released and state.verdict == "passed":
        verdict = "[yellow]released[/]"
    offline = "[yellow]withdrawn[/]" if state.withdrawn is not None else _target_cell(state.offline)
    age = "" if state.published_at is None or state.withdrawn is not None else _ago(now - state.published_at)
    held = ", ".join(f"{what}: {who}" for what, who in state.locks.items())
    return [str(state.day), *stages, verdict, offline, _target_cell(state.online), age, state.bundle_id or "", held]


def _stage_cell(stage: StageState) -> str:
    if stage.presence == "there":
        return f"{stage.rows:,}"
    if stage.presence == "pruned":
        return f"[dim]{stage.rows:,} pruned[/]"
    return {"none": "—", "staged": "[yellow]staged[/]"}.get(stage.presence, f"[red]{stage.presence}[/]")


def _target_cell(state: str) -> str:
    colour = {"done": "green", "pending": "yellow", "damaged": "red", "lost": "red", "unknown": "red"}.get(state)
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
    if state.stopped_by:
        remarks.append(f"stopped by {', '.join(state.stopped_by)}")
    if state.released:
        remarks.append(f"released: {', '.join(state.released)}")
    if state.pending and state.withdrawn is None:
        note = f" ({state.online_note})" if state.online_note else ""
        remarks.append(f"pending: {', '.join(state.pending)}{note}; profile-assets publish {state.day}")
    damaged = [name for name, stage in state.stages.items() if stage.presence == "damaged"]
    damaged += [name for name in ("verdict", "offline") if getattr(state, name) == "damaged"]
    if damaged:
        remarks.append(f"damaged: {', '.join(damaged)}; profile-assets verify {state.day}")
    return remarks


def _print_proof(proof: DayProof) -> None:
    console.print(f"{proof.day}  {'[green]right[/]' if proof.is_right else '[red]wrong[/]'}")
    for finding in proof.findings:
        if finding.state != "none" or finding.detail:
            word = f"{finding.state}: " if finding.state in ("pruned", "missing", "unreachable") else ""
            console.print(f"  {_MARKS[finding.state]} {finding.part:<12} ", end="")
            console.print(f"{word}{finding.detail}", markup=False, soft_wrap=True)


def _print_pruning(done: Pruning, word: str) -> None:
    stages: Counter[str] = Counter()
    for removal in done.removals:
        console.print(f"{word}: {removal.path} ({removal.size_bytes / 1e6:,.1f} MB)", markup=False, soft_wrap=True)
        stages[removal.stage] += 1
    for day, why in done.kept.items():
        console.print(f"kept: {day}: {why}", markup=False, soft_wrap=True)
    told = ", ".join(f"{count} of {stage}" for stage, count in sorted(stages.items())) or "nothing"
    console.print(f"[green]✓[/] {word}: {told}; {done.size_bytes / 1e6:,.1f} MB")


def _online(deployment: Deployment) -> OnlineStore | None:
    if deployment.export.online is None:
        return None
    from profile_assets.feature_store.online import open_online

    return open_online(deployment.layout, deployment.export.online)


def _live(deployment: Deployment) -> Live | None:
    if deployment.export.online is None:
        return None
    from profile_assets.feature_store.live import ask

    return ask(deployment.layout, deployment.export.online)


def _bucket(deployment: Deployment) -> Bucket | None:
    if deployment.export.bucket is None:
        return None
    from profile_assets.feature_store.bucket import open_bucket

    return open_bucket(deployment.export.bucket, deployment.layout.name)
