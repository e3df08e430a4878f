"""`profile-assets ...`: what Dagster's own command line does not do.

Commands that make data do it through Dagster, on the instance of the folder's dagster.yaml, so that the UI shows
the same runs. Anything slow to import is imported by the command that needs it: `--help` must be quick.
"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Annotated

import typer

from profile_assets.errors import ProfileAssetsError

app = typer.Typer(
    name="profile-assets",
    help="Scores every user's profile every day, by the profile that PROFILE_CONFIG names (default: the demo).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich is half of what --help would take
)
demo = typer.Typer(no_args_is_help=True, help="Data to try it with.", rich_markup_mode=None)
app.add_typer(demo, name="demo")
online = typer.Typer(no_args_is_help=True, help="Lookups of single users.")
app.add_typer(online, name="online")

Day = Annotated[dt.datetime, typer.Argument(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD")]


def main() -> None:
    """Run the command; an error of ours is one clear message and exit status 1 (2 where trying again may help)."""
    try:
        app()
    except ProfileAssetsError as error:
        from profile_assets.errors import TransientError

        typer.secho(f"profile-assets: {error}", err=True, fg="red")
        sys.exit(2 if isinstance(error, TransientError) else 1)


@app.command()
def quickstart(
    days: Annotated[int, typer.Option(min=1, help="How many of the newest days to score.")] = 3,
) -> None:
    """Prepare the demo, train a first model, score the newest days and show the result. Safe to repeat."""
    from profile_assets import tour

    tour.quickstart(days)


@app.command()
def train() -> None:
    """Train a bundle from the profile's training days; the first one becomes stable."""
    from profile_assets import tour

    tour.train()


@app.command()
def backfill(
    first: Day,
    last: Day,
    again: Annotated[bool, typer.Option("--again", help="Also days that are published already.")] = False,
) -> None:
    """Score a range of days in one process, one Dagster run a day; the model is loaded once."""
    from profile_assets import tour

    tour.backfill(first.date(), last.date(), again=again)


@app.command()
def show(
    day: Annotated[dt.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Default: the newest.")] = None,
) -> None:
    """What is published: the days, and a few rows of one."""
    from profile_assets import tour

    tour.show(None if day is None else day.date())


@app.command()
def publish(day: Day) -> None:
    """Publish a day that was scored, to every target that lacks it; what is done already is left as it is."""
    from profile_assets import targets

    targets.publish(day.date())


@app.command()
def lookup(
    user: Annotated[str, typer.Argument(help="The user's id, as text.")],
    day: Annotated[
        dt.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Read the table. Default: the live lookups.")
    ] = None,
) -> None:
    """One user's published score, as JSON; exit status 3 where there is none, 4 where it is expired."""
    import json

    from profile_assets import targets

    found = targets.lookup(user, None if day is None else day.date())
    typer.echo(json.dumps(found, default=str))
    if found["state"] != "found":
        typer.echo(f"the score of {user!r} is {found['state']}", err=True)
        raise typer.Exit(3 if found["state"] == "missing" else 4)


@online.command()
def rollback() -> None:
    """Make the version before the live one live again."""
    from profile_assets import targets

    targets.rollback()


@online.command()
def versions() -> None:
    """The versions that lookups have: the live one, and those kept for a rollback."""
    from profile_assets import targets

    targets.versions()


@app.command()
def freshness() -> None:
    """Is the newest due day published? Exit status 0 fresh, 1 stale, for cron where the Dagster daemon is dead."""
    from profile_assets.profile import load_deployment
    from profile_assets.quality.freshness import freshness as judge
    from profile_assets.storage.published import published_days

    deployment = load_deployment()
    state = judge(dt.datetime.now(dt.UTC), deployment.due_rule, published_days(deployment.layout))
    oldest = f"; oldest missing day {state.missing[0]}" if state.missing else ""
    typer.echo(f"{state.state}: newest due day {state.newest_due}, newest published {state.newest_published}{oldest}")
    raise typer.Exit(1 if state.state == "stale" else 0)


Why = Annotated[str, typer.Option("--why", help="The reason; it is recorded and shown.")]
By = Annotated[str | None, typer.Option("--by", help="Who says so. Default: the user of this machine.")]


@app.command()
def release(
    day: Day, why: Why, check: Annotated[str, typer.Option("--check", help="The check that it failed.")], by: By = None
) -> None:
    """Let exactly the data that failed a check through it, for the record; then run the day again."""
    from profile_assets.profile import load_deployment
    from profile_assets.storage.releases import release as let_through

    made = let_through(
        load_deployment().layout, day.date(), check, by=by or _user(), at=dt.datetime.now(dt.UTC), why=why
    )
    typer.echo(f"{check} of {day.date()} is released for the data {made.digest[:12]}, by {made.by}: {made.why}")
    typer.echo(f"now run the day again: profile-assets backfill {day.date()} {day.date()}")


@app.command()
def withdraw(
    day: Day,
    why: Annotated[str, typer.Option("--why", help="The reason; it is recorded and shown.")] = "",
    by: By = None,
    undo: Annotated[bool, typer.Option("--undo", help="The data was right: let it be published again.")] = False,
) -> None:
    """Take a bad published day back: readers then see the days before. A rerun does not publish the same data again."""
    from profile_assets import targets

    targets.undo_withdrawal(day.date()) if undo else targets.withdraw(day.date(), why=why, by=by or _user())


def _user() -> str:
    import getpass

    return getpass.getuser()


@app.command()
def check(
    path: Annotated[Path | None, typer.Argument(help="A profile file. Default: the one PROFILE_CONFIG names.")] = None,
) -> None:
    """Check a profile file; all its mistakes at once."""
    from profile_assets.profile import load_deployment

    deployment = load_deployment(path)
    profile = deployment.profile
    typer.echo(
        f"{profile.name}: well formed; {len(profile.contract.columns)} columns, data under {deployment.layout.home}"
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
    from profile_assets import plan as planning

    planning.plan(users, deadline, price_per_hour, rate=rate, day=None if day is None else day.date(), peak_per_s=peak)


@demo.command()
def prepare() -> None:
    """Write the demo's daily exports up to yesterday; those that are there already are left alone."""
    from profile_assets import tour

    tour.prepare_demo()


@demo.command()
def generate(
    users: Annotated[int, typer.Option("--users", "-n", min=1, help="Users a day.")] = 1_000_000,
    days: Annotated[int, typer.Option(min=1, help="Days up to yesterday.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Write a made-up table of any size, for load and speed."""
    from profile_assets import tour

    tour.generate_demo(users, days, seed)


if __name__ == "__main__":
    main()
