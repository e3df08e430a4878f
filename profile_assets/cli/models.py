"""Commands about models."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def train() -> None:
    """Train a bundle from the profile's training days; the first one becomes stable."""
    from profile_assets.commands import tour

    tour.train()
