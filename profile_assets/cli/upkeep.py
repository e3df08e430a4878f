"""Commands that keep things in order: where do the days stand, is a day right, remove what is old."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from profile_assets.cli.arguments import Day

app = typer.Typer()


@app.command()
def status(
    days: Annotated[int, typer.Option("--days", min=1, help="How many of the newest days.")] = 14,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Each day and stage: rows, bundle, verdict, age, what readers see, what is pending, who holds a lock."""
    from profile_assets.commands.status import status as show

    show(days, as_json=as_json)


@app.command()
def verify(
    first: Day,
    last: Annotated[
        dt.datetime | None, typer.Argument(formats=["%Y-%m-%d"], metavar="[YYYY-MM-DD]", help="A range, up to here.")
    ] = None,
) -> None:
    """Count and digest everything of a day again, from disk; exit status 1 where anything is wrong."""
    from profile_assets.commands import upkeep

    if not upkeep.verify(first.date(), (last or first).date()):
        raise typer.Exit(1)


@app.command()
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove the data of days that are past the profile's retention, and what dead runs left behind."""
    from profile_assets.commands import upkeep

    upkeep.prune(dry_run=dry_run)
