"""Commands about what readers see: the published days, publishing again, taking back, one user."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from profile_assets.cli.arguments import By, Day, this_user

app = typer.Typer()


@app.command()
def show(
    day: Annotated[dt.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Default: the newest.")] = None,
) -> None:
    """What is published: the days, and a few rows of one."""
    from profile_assets.commands import tour

    tour.show(None if day is None else day.date())


@app.command()
def publish(day: Day) -> None:
    """Publish a day that was scored, to every target that lacks it; what is done already is left as it is."""
    from profile_assets.commands import targets

    targets.publish(day.date())


@app.command()
def reconcile(
    day: Day,
    replace: Annotated[
        bool, typer.Option("--replace", help="Where they differ, publish the scores in full in its place.")
    ] = False,
) -> None:
    """Hold a published day against itself scored in full; exit status 1 where they differ and nothing was replaced."""
    from profile_assets.commands import reconcile as reconciling

    raise typer.Exit(reconciling.reconcile(day.date(), replaces=replace))


@app.command()
def withdraw(
    day: Day,
    why: Annotated[str, typer.Option("--why", help="The reason; it is recorded and shown.")] = "",
    by: By = None,
    undo: Annotated[bool, typer.Option("--undo", help="The data was right: let it be published again.")] = False,
) -> None:
    """Take a bad published day back: readers then see the days before. A rerun does not publish the same data again."""
    from profile_assets.commands import targets

    targets.undo_withdrawal(day.date()) if undo else targets.withdraw(day.date(), why=why, by=by or this_user())


@app.command()
def lookup(
    user: Annotated[str, typer.Argument(help="The user's id, as text.")],
    day: Annotated[
        dt.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Read the table. Default: the live lookups.")
    ] = None,
) -> None:
    """One user's published score, as JSON; exit status 3 where there is none, 4 where it is expired."""
    import json

    from profile_assets.commands import targets

    found = targets.lookup(user, None if day is None else day.date())
    typer.echo(json.dumps(found, default=str))
    if found["state"] != "found":
        typer.echo(f"the score of {user!r} is {found['state']}", err=True)
        raise typer.Exit(3 if found["state"] == "missing" else 4)
