"""The Dagster instance of the command line: DAGSTER_HOME's, or that of a dagster.yaml in the working folder, which is
what `dagster dev` uses too.

Dagster sets its tables up as it opens an instance for the first time, and two that do so at once break each other:
whoever comes second finds half of the tables there. So instances are opened one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.instance import InstanceRef  # the settings, before anything is opened; it has no public name
from sqlalchemy.exc import OperationalError

from profile_assets.errors import ProfileError, StorageError
from profile_assets.storage.atomic import locked


@contextmanager
def open_instance() -> Iterator[dg.DagsterInstance]:
    """That instance. ProfileError where there is none; LockedError where another process hangs while it opens it;
    StorageError where its storage cannot be used.
    """
    home = Path(os.environ.get("DAGSTER_HOME") or Path.cwd())
    if not (home / "dagster.yaml").exists():
        raise ProfileError(
            f"there is no dagster.yaml in {home}",
            remedy="go to the folder that has one, or set DAGSTER_HOME to it; `profile-assets init` writes one",
        )
    with _storage_errors(home):
        with _opened(home) as instance:
            yield instance


@contextmanager
def _opened(home: Path) -> Iterator[dg.DagsterInstance]:
    settings = InstanceRef.from_dir(str(home))
    # Beside Dagster's own files, for the home itself need not be writable.
    with locked(Path(settings.local_artifact_storage.base_dir) / "opening.lock", what="Dagster's storage"):
        opened = dg.DagsterInstance.from_ref(settings)
    with opened as instance:
        yield instance


@contextmanager
def _storage_errors(home: Path) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise StorageError(
            f"Dagster's storage of {home} cannot be used: {error.orig}",
            remedy="see that its disk has room and may be written to by this user, or that its database is up",
        ) from error
