"""The command about the shadow."""

from __future__ import annotations

from typing import Annotated

import typer

from profile_assets.cli.arguments import Day

app = typer.Typer()


@app.command()
def shadow(day: Day, as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Score a published day by the shadow bundle and compare; what is published stays as it is."""
    from profile_assets.commands import shadow as shadowing

    shadowing.shadow(day.date(), as_json=as_json)
