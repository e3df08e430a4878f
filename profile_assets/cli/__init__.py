"""`profile-assets ...`: what Dagster's own command line does not do.

Commands that make data do it through Dagster, on the instance of the folder's dagster.yaml, so that the UI shows
the same runs. Each module here declares commands of one kind; what they do stands in `commands/`. Anything slow to
import is imported by the command that needs it: `--help` must be quick.
"""

from __future__ import annotations

import sys

import typer

from profile_assets.cli import alerts, days, demo, models, online, profile, readers, shadow, upkeep
from profile_assets.errors import ProfileAssetsError

app = typer.Typer(
    name="profile-assets",
    help="Scores every user's profile every day, by the profile that PROFILE_CONFIG names (default: the demo).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich is half of what --help would take
)
for group in (days.app, alerts.app, readers.app, shadow.app, models.app, profile.app, upkeep.app):
    app.add_typer(group)
app.add_typer(demo.app, name="demo")
app.add_typer(online.app, name="online")


def main() -> None:
    """Run the command; an error of ours is one clear message and exit status 1 (2 where trying again may help)."""
    try:
        app()
    except ProfileAssetsError as error:
        from profile_assets.errors import TransientError

        typer.secho(f"profile-assets: {error}", err=True, fg="red")
        sys.exit(2 if isinstance(error, TransientError) else 1)
