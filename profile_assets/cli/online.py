"""Lookups of single users."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Lookups of single users.", rich_markup_mode=None)


@app.command()
def rollback() -> None:
    """Make the version before the live one live again."""
    from profile_assets.commands import targets

    targets.rollback()


@app.command()
def versions() -> None:
    """The versions that lookups have: the live one, and those kept for a rollback."""
    from profile_assets.commands import targets

    targets.versions()
