"""Data to try it with."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Data to try it with.", rich_markup_mode=None)


@app.command()
def prepare() -> None:
    """Write the demo's daily exports up to yesterday; those that are there already are left alone."""
    from profile_assets.commands import tour

    tour.prepare_demo()


@app.command()
def generate(
    users: Annotated[int, typer.Option("--users", "-n", min=1, help="Users a day.")] = 1_000_000,
    days: Annotated[int, typer.Option(min=1, help="Days up to yesterday.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Write a made-up table of any size, for load and speed."""
    from profile_assets.commands import tour

    tour.generate_demo(users, days, seed)
