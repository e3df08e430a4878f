"""`profile-assets reconcile`: a published day beside itself scored in full, through Dagster, told to people."""

from __future__ import annotations

import datetime as dt
from typing import Any

from rich.console import Console
from rich.table import Table

from profile_assets.orchestration.launch import session
from profile_assets.orchestration.reconciling import carried_since
from profile_assets.profile import open_deployment
from profile_assets.storage.records import read_json

console = Console(highlight=False)


def reconcile(day: dt.date, *, replaces: bool) -> int:
    """Reconcile the day, tell what was found, and replace the day where that is wanted and needed; the exit status."""
    deployment = open_deployment()
    with session(deployment) as runs:
        runs.reconcile(day)
        found = read_json(deployment.layout.reconciliation(day))
        _tell(found)
        if not (found["added"] or found["removed"] or found["changed"]):
            console.print(f"[green]✓[/] {day} is what scoring it in full gives; nothing was replaced")
            return 0
        if not replaces:
            console.print(f"nothing was replaced; to do that: profile-assets reconcile {day} --replace")
            return 1
        later = carried_since(deployment.layout, day)
        runs.replace(day)
    console.print(f"[green]✓[/] {day} is published again, with its scores in full")
    if later:
        console.print(f"these days carried from it, run them again: {', '.join(map(str, later))}")
    return 0


def _tell(found: dict[str, Any]) -> None:
    counts = ", ".join(f"{found[kind]:,} {kind}" for kind in ("added", "removed", "changed"))
    console.print(
        f"{found['published']:,} published users of {found['day']}, {found['full']:,} in full: {counts}; "
        f"the largest difference is {found['largest']:.3g}, {found['tolerance']:g} is allowed"
    )
    if found["examples"]:
        table = Table(title="examples", title_justify="left")
        for column in ("kind", "user_id", "published", "in_full", "route"):
            table.add_column(column)
        for one in found["examples"]:
            table.add_row(*("—" if one[name] is None else str(one[name]) for name in one))
        console.print(table)
