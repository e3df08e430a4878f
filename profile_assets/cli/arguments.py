"""Arguments and options that several commands have."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

Day = Annotated[dt.datetime, typer.Argument(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD")]
Why = Annotated[str, typer.Option("--why", help="The reason; it is recorded and shown.")]
By = Annotated[str | None, typer.Option("--by", help="Who says so. Default: the user of this machine.")]


def this_user() -> str:
    """Who is at the keyboard, for the record."""
    import getpass

    return getpass.getuser()
