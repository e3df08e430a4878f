"""Commands about the profile file, and planning with it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def check(
    path: Annotated[Path | None, typer.Argument(help="A profile file. Default: the one PROFILE_CONFIG names.")] = None,
) -> None:
    """Check a profile file; all its mistakes at once."""
    from profile_assets.profile import load_deployment

    deployment = load_deployment(path)
    profile, suite = deployment.profile, deployment.rules.suite
    if suite is not None:
        from profile_assets.quality.suite_file import check_suite

        check_suite(suite)
    typer.echo(f"{profile.name}: well formed; {len(profile.contract.columns)} columns, data under {deployment.where}")
    from profile_assets.quality.freshness import starts_beyond
    from profile_assets.storage.published import published_days

    beyond = starts_beyond(deployment.due_rule, dt.datetime.now(dt.UTC), published_days(deployment.layout))
    if beyond:
        typer.echo(f"warning: {beyond}", err=True)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder. Default: this one.")] = Path(),
) -> None:
    """Write dagster.yaml, workspace.yaml and a profile to correct into a folder; nothing there is ever replaced."""
    from profile_assets.commands.starter import write_starter

    for path in write_starter(folder):
        typer.echo(f"{path}")
    typer.echo(
        f"now correct profile.toml, and in {folder.absolute()}: PROFILE_CONFIG=profile.toml profile-assets check"
    )


@app.command()
def fields() -> None:
    """Every field of the profile file, with its type, default and meaning."""
    from profile_assets.profile.reference import reference

    typer.echo(reference(), nl=False)


@app.command()
def plan(
    users: Annotated[int, typer.Option(min=1, help="Users a night.")] = 10_000_000,
    deadline: Annotated[str, typer.Option(help="2h, 90m, 1h30m")] = "2h",
    price_per_hour: Annotated[float, typer.Option(min=0, help="Of one device.")] = 1.0,
    rate: Annotated[float | None, typer.Option(help="Users/s of one device. Default: measured here.")] = None,
    day: Annotated[dt.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Take the rate of that day.")] = None,
    peak: Annotated[float | None, typer.Option(help="Requests/s at the service's peak.")] = None,
) -> None:
    """Devices, hours and cost of a night, beside a service that is always on."""
    from profile_assets.commands import plan as planning

    planning.plan(users, deadline, price_per_hour, rate=rate, day=None if day is None else day.date(), peak_per_s=peak)
