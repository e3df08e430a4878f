"""The commands that keep things in order: verify, prune."""

from __future__ import annotations

import datetime as dt
from collections import Counter

from rich.console import Console

from profile_assets.errors import ProfileError
from profile_assets.feature_store.bucket import Bucket
from profile_assets.feature_store.versions import OnlineStore
from profile_assets.profile import Deployment, load_deployment, open_deployment
from profile_assets.upkeep.findings import FAULTS
from profile_assets.upkeep.prune import Pruning
from profile_assets.upkeep.verify import DayProof, verify_day

ONE_DAY = dt.timedelta(days=1)
_MARKS = {
    "right": "[green]✓[/]",
    "noted": "[yellow]![/]",
    **dict.fromkeys(FAULTS, "[red]✗[/]"),
    "pruned": "[dim]–[/]",
    "none": "[dim]·[/]",
}
console = Console(highlight=False)


def verify(first: dt.date, last: dt.date) -> bool:
    """Print what was found of each day; whether all of it is right."""
    if last < first:
        raise ProfileError(f"{first} to {last} is no range of days", remedy="give the earlier day first")
    deployment = load_deployment()  # each day is pulled below
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


def _verified(deployment: Deployment, day: dt.date, online: OnlineStore | None, bucket: Bucket | None) -> DayProof:
    zone = deployment.profile.time_zone
    return verify_day(deployment.layout, day, time_zone=zone, online=online, bucket=bucket)


def _print_proof(proof: DayProof) -> None:
    noted = ", with a note" if any(finding.state == "noted" for finding in proof.findings) else ""
    console.print(f"{proof.day}  {'[green]right[/]' if proof.is_right else '[red]wrong[/]'}{noted}")
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


def _bucket(deployment: Deployment) -> Bucket | None:
    if deployment.export.bucket is None:
        return None
    from profile_assets.feature_store.bucket import open_bucket

    return open_bucket(deployment.export.bucket, deployment.layout.name)
