"""Commands about models: train one, look at those there are, choose which one scores, trace one score."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from profile_assets.cli.arguments import By, Day, Why, this_user

app = typer.Typer()
registry = typer.Typer(
    no_args_is_help=True, help="Which bundles there are, and which one scores.", rich_markup_mode=None
)
app.add_typer(registry, name="models")

Json = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command()
def train() -> None:
    """Train a bundle from the profile's training days; the first one becomes stable."""
    from profile_assets.commands import tour

    tour.train()


@app.command()
def why(
    user: Annotated[str, typer.Argument(help="The user's id, as text.")],
    day: Day,
    is_personal: Annotated[bool, typer.Option("--personal", help="Show personal columns too.")] = False,
    as_json: Json = False,
) -> None:
    """Trace a published score: source row, shard, features, bundle, data, code, checks, and what each feature did."""
    from profile_assets.commands import why as tracing

    tracing.why(user, day.date(), is_personal=is_personal, as_json=as_json)


@registry.command("list")
def list_bundles(as_json: Json = False) -> None:
    """The bundles, newest first, with their figures and what points to them."""
    from profile_assets.commands import models

    models.list_bundles(as_json=as_json)


@registry.command()
def show(
    bundle: Annotated[str, typer.Argument(help="A bundle's id, or stable, canary, shadow, previous.")],
    as_json: Json = False,
) -> None:
    """One bundle: figures, features, the data and the code that it was made from."""
    from profile_assets.commands import models

    models.show(bundle, as_json=as_json)


@registry.command()
def promote(
    bundle: Annotated[str, typer.Argument(help="The bundle's id, or canary or shadow for the one that is.")],
    why: Why,
    to: Annotated[str, typer.Option("--to", help="stable; or canary or shadow, which need no comparison.")] = "stable",
    force: Annotated[bool, typer.Option("--force", help="Even if it compares badly, or cannot be compared.")] = False,
    by: By = None,
) -> None:
    """Let a bundle score, if it is not worse than the stable one on the newest day whose labels are known."""
    from profile_assets.commands import models

    models.promote(bundle, to, why=why, by=by or this_user(), is_forced=force)


@registry.command()
def canary(
    why: Why,
    bundle: Annotated[str | None, typer.Argument(help="The bundle's id.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="From now on there is no canary.")] = False,
    by: By = None,
) -> None:
    """Let a bundle score a stable share of the users from the next day on, or withdraw it."""
    from profile_assets.commands import models

    models.try_beside("canary", bundle, withdraws=withdraw, why=why, by=by or this_user())


@registry.command()
def shadow(
    why: Why,
    bundle: Annotated[str | None, typer.Argument(help="The bundle's id.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="From now on there is no shadow.")] = False,
    by: By = None,
) -> None:
    """Let a bundle score beside what is published, for nobody to see, or withdraw it."""
    from profile_assets.commands import models

    models.try_beside("shadow", bundle, withdraws=withdraw, why=why, by=by or this_user())


@registry.command()
def rollback(why: Why, by: By = None) -> None:
    """Make the bundle that was stable before stable again."""
    from profile_assets.commands import models

    models.rollback(why=why, by=by or this_user())


@registry.command("set-aside-log")
def set_aside_log(why: Why, by: By = None) -> None:
    """Begin a new log where the registry's cannot be read, which stops every move; the old file stays."""
    from profile_assets.commands import models

    models.set_aside_log(why=why, by=by or this_user())


@registry.command()
def history(
    at: Annotated[
        dt.datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"], help="What was stable then (UTC)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Who moved which pointer, when and why; or what was stable at a moment."""
    from profile_assets.commands import models

    models.history(None if at is None else at.replace(tzinfo=dt.UTC), as_json=as_json)


@registry.command("import")
def import_weights(
    folder: Annotated[Path, typer.Argument(help="Holds weights.safetensors, feature_spec.json, signature.json.")],
) -> None:
    """Make a bundle of weights that were trained elsewhere, for a named architecture; the first one becomes stable."""
    from profile_assets.commands import models

    models.import_weights(folder)
