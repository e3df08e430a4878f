"""Commands about being told: is what readers see fresh, do the channels work, the numbers for Prometheus."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def freshness() -> None:
    """Is every due day published, in each target? Exit status 0 fresh, 1 stale; for cron, where Dagster is dead."""
    from profile_assets.commands import alerts

    raise typer.Exit(alerts.freshness())


@app.command(name="alert-test")
def alert_test() -> None:
    """Send a test to every channel and say what came back. Exit status 1 unless all of them took it."""
    from profile_assets.commands import alerts

    raise typer.Exit(alerts.alert_test())


@app.command()
def metrics(
    write: Annotated[bool, typer.Option("--write", help="Replace the profile's textfile. Default: print it.")] = False,
) -> None:
    """The numbers for Prometheus, from what is on the disk."""
    from profile_assets.commands import alerts

    alerts.metrics(write=write)
