"""The Dagster instance of the command line: DAGSTER_HOME's, or that of a dagster.yaml in the working folder, which is
what `dagster dev` uses too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from profile_assets.errors import ProfileError


@contextmanager
def open_instance() -> Iterator[dg.DagsterInstance]:
    """That instance. ProfileError where there is none."""
    home = Path(os.environ.get("DAGSTER_HOME") or Path.cwd())
    if not (home / "dagster.yaml").exists():
        raise ProfileError(
            f"there is no dagster.yaml in {home}",
            remedy="go to the folder that has one, or set DAGSTER_HOME to it; `profile-assets init` writes one",
        )
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance
