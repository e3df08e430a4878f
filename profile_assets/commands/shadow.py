"""`profile-assets shadow`: a published day by the shadow, through Dagster, told to people."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from profile_assets.errors import BundleError
from profile_assets.models import registry
from profile_assets.orchestration.launch import session
from profile_assets.profile import open_deployment
from profile_assets.storage.records import read_json

console = Console(highlight=False)
_COLUMNS = ("segment", "rows", "published_mean", "shadow_mean", "mean_difference", "disagreeing_share")
_FIGURES = ("rows", "published_mean", "shadow_mean", "psi", "rank_correlation", "mean_difference", "disagreeing")


def shadow(day: dt.date, *, as_json: bool) -> None:
    """Run the job and show what it found. BundleError without a shadow."""
    deployment = open_deployment()
    if registry.read_pointer(deployment.layout, registry.SHADOW) is None:
        raise BundleError(
            f"{deployment.layout.name} has no shadow",
            remedy='choose a bundle: profile-assets models shadow ID --why "..."',
        )
    with session(deployment) as runs:
        runs.shadow(day)
    found = read_json(deployment.layout.shadow_report(day))
    if as_json:
        print(json.dumps(found))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    console.print(f"{found['bundle_id']} beside {found['published_bundle_id']} on {found['day']}")
    figures = {name: found[name] for name in _FIGURES}
    figures |= {f"overlap of the top {float(share):.0%}": one for share, one in found["overlaps"].items()}
    figures |= {name: found[name] for name in ("us_per_user", "published_us_per_user")}
    for name, value in figures.items():
        console.print(f"  {name}: {_told(value)}")
    if found["segments"]:
        table = Table(title=f"by {found['segment']}", title_justify="left")
        for column in _COLUMNS:
            table.add_column(column)
        for row in found["segments"]:
            table.add_row(*(_told(row[column]) for column in _COLUMNS))
        console.print(table)


def _told(value: object) -> str:
    return "—" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
