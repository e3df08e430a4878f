"""Which file of the published table holds a day, whatever the table's format is. Who writes it is `feature_store`.

Every format holds a day as one Parquet file. deltalake is imported only where the table is Delta Lake.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from profile_assets.errors import CorruptError, ProfileError, StorageError
from profile_assets.storage.layout import PART_FILE, Layout, day_of
from profile_assets.storage.parts_there import bring_part, days_there

if TYPE_CHECKING:
    from deltalake import DeltaTable

Format = Literal["parquet", "delta"]
PARTITION_COLUMN = "ds"


def table_format(layout: Layout) -> Format | None:
    """What the table at `layout.offline` is; None where there is none yet."""
    if (layout.offline / "_delta_log").exists():
        return "delta"
    return "parquet" if any(layout.offline.glob("ds=*/*.parquet")) else None


def part_of(layout: Layout, day: dt.date, *, known_at: dt.datetime | None = None) -> Path | None:
    """The file that readers of a day get; None where the table has no such day.

    `known_at` asks a Delta table for the file of then. CorruptError where a day lies in several files.
    """
    if not (layout.offline / "_delta_log").exists():
        path = layout.offline_part(day)
        return path if path.exists() or bring_part(path) else None
    table = delta_table(layout.offline, known_at=known_at)
    if table is None:
        return None
    with delta_errors(layout.offline):
        files = table.file_uris(file_pruning_predicate=day_predicate(day))
    if len(files) > 1:
        raise CorruptError(
            f"{day} of {layout.offline} lies in {len(files)} files, something else wrote there",
            remedy=f"publish {day} again, and let nothing else write to that table",
        )
    return layout.offline / _below_table(files[0]) if files else None


def days_of(layout: Layout, *, known_at: dt.datetime | None = None) -> list[dt.date]:
    """The days that the table has, oldest first; see `part_of` for `known_at`."""
    if not (layout.offline / "_delta_log").exists():
        parts = layout.offline.glob(f"{PARTITION_COLUMN}=????-??-??/{PART_FILE}")
        here = (day for part in parts if (day := day_of(part.parent.name)) is not None)
        return sorted({*here, *days_there(layout)})
    table = delta_table(layout.offline, known_at=known_at)
    if table is None:
        return []
    with delta_errors(layout.offline):
        return sorted({dt.date.fromisoformat(str(one[PARTITION_COLUMN])) for one in table.partitions()})


def delta_table(path: Path, *, known_at: dt.datetime | None = None) -> DeltaTable | None:
    """The Delta table at `path`, or its state at a moment; None where there was none (yet)."""
    require_deltalake()
    from deltalake import DeltaTable

    with delta_errors(path):
        table = DeltaTable(str(path)) if DeltaTable.is_deltatable(str(path)) else None
        if table is not None and known_at is not None:
            then = [one for one in table.history() if one["timestamp"] <= known_at.timestamp() * 1000]
            if not then:
                return None
            table.load_as_version(max(one["version"] for one in then))
    return table


def day_predicate(day: dt.date) -> str:
    """The rows of a day, as Delta Lake is asked for them."""
    return f"{PARTITION_COLUMN} = '{day.isoformat()}'"


def require_deltalake() -> None:
    """ProfileError unless the package is there."""
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise ProfileError(
            "a Delta table needs the package deltalake", remedy="pip install 'profile-assets[delta]'"
        ) from error


@contextlib.contextmanager
def delta_errors(path: Path) -> Iterator[None]:
    """What deltalake raises, as errors of ours."""
    from deltalake import exceptions

    try:
        yield
    except exceptions.CommitFailedError as error:
        raise StorageError(f"{path}: the commit was refused: {error}", remedy="publish the day again") from error
    except (exceptions.DeltaError, OSError) as error:
        raise StorageError(f"{path} cannot be used: {error}", remedy="check that table and its disk") from error


def _below_table(uri: str) -> Path:
    """Folder and name of a data file. What stands before them is the table's path, as a URI writes it."""
    return Path(*Path(uri).parts[-2:])
