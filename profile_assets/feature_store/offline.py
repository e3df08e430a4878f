"""The table that readers open, behind one interface: which file holds a day, and the one step that replaces it.

Every format holds a day as one Parquet file with the publish record in its footer (see `rows`), so that reading,
auditing and rolling a record forward are the same for all. Parquet is here, Delta Lake in `delta`.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Protocol

from profile_assets.errors import ProfileError
from profile_assets.storage.atomic import remove_file, replace_file
from profile_assets.storage.layout import Layout
from profile_assets.storage.parts import Format, days_of, part_of, table_format
from profile_assets.storage.published import PublishRecord, footer_record


class OfflineStore(Protocol):
    """One profile's table.

    `part` names the file that readers of a day get now, None where the table has no such day; `days` lists the days it
    has, oldest first. With `known_at`, as it was at that moment, as far as the format knows. A file that was handed out
    stays readable while its reader holds it open, and is never written to again. `replace` makes a staged file the
    day's only one in one step: a reader sees the old day or the new one, and no other day is touched. `remove` takes
    the day out, in one step too; a day that is not there is no error. One writer a day at a time; writers of different
    days may meet. Disk errors are StorageError, or DiskError.
    """

    path: Path

    def part(self, day: dt.date, *, known_at: dt.datetime | None = None) -> Path | None: ...

    def days(self, *, known_at: dt.datetime | None = None) -> list[dt.date]: ...

    def replace(self, staged: Path, record: PublishRecord) -> None: ...

    def remove(self, day: dt.date) -> None: ...


class ParquetTable:
    """Plain hive-partitioned Parquet: the rename of a day's file is the commit.

    It keeps no history: at `known_at` it has what it has now, less the days that were published later.
    """

    def __init__(self, layout: Layout) -> None:
        self.path = layout.offline
        self._layout = layout

    def part(self, day: dt.date, *, known_at: dt.datetime | None = None) -> Path | None:
        path = part_of(self._layout, day)
        if path is None or (known_at is not None and footer_record(path, day).published_at > known_at):
            return None
        return path

    def days(self, *, known_at: dt.datetime | None = None) -> list[dt.date]:
        days = days_of(self._layout)
        return [day for day in days if known_at is None or self.part(day, known_at=known_at) is not None]

    def replace(self, staged: Path, record: PublishRecord) -> None:
        replace_file(staged, self._layout.offline_part(record.day))

    def remove(self, day: dt.date) -> None:
        remove_file(self._layout.offline_part(day))


def open_offline(layout: Layout, wanted: Format | None = None) -> OfflineStore:
    """The table as it lies on disk; a table that is not there yet becomes what is `wanted`.

    ProfileError where the profile wants another format than the table has: the two never mix under one path.
    """
    found = table_format(layout)
    if None not in (found, wanted) and found != wanted:
        raise ProfileError(
            f"the table at {layout.offline} is {found}, the profile wants {wanted}",
            remedy="keep its format, or move the old table away and publish its days again",
        )
    if (found or wanted) == "delta":
        from profile_assets.feature_store.delta import DeltaLake

        return DeltaLake(layout)
    return ParquetTable(layout)
