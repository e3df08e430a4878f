"""Commands about days: score them, look at them, let one through, is the newest there."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from profile_assets.cli.arguments import By, Day, Why, this_user

app = typer.Typer()


@app.command()
def quickstart(
    days: Annotated[int, typer.Option(min=1, help="How many of the newest days to score.")] = 3,
) -> None:
    """Prepare the demo, train a first model, score the newest days and show the result. Safe to repeat."""
    from profile_assets.commands import tour

    tour.quickstart(days)


@app.command()
def backfill(
    first: Day,
    last: Day,
    again: Annotated[bool, typer.Option("--again", help="Also days that are published already.")] = False,
    model: Annotated[
        str, typer.Option("--model", help="stable; as-of: what was stable when each day was due; or a bundle's id.")
    ] = "stable",
) -> None:
    """Score a range of days in one process, one Dagster run a day; by default those that failed or are missing."""
    from profile_assets.commands.backfill import backfill as run_days

    run_days(first.date(), last.date(), again=again, model=model)


@app.command()
def release(
    day: Day, why: Why, check: Annotated[str, typer.Option("--check", help="The check that it failed.")], by: By = None
) -> None:
    """Let exactly the data that failed a check through it, for the record; then run the day again."""
    from profile_assets.profile import open_deployment
    from profile_assets.storage.releases import release as let_through

    made = let_through(
        open_deployment().layout, day.date(), check, by=by or this_user(), at=dt.datetime.now(dt.UTC), why=why
    )
    typer.echo(f"{check} of {day.date()} is released for the data {made.digest[:12]}, by {made.by}: {made.why}")
    typer.echo(f"now run the day again: profile-assets backfill {day.date()} {day.date()}")
