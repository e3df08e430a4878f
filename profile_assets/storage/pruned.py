"""Data of a stage that was removed because it is old. Its manifest stays: what it was is still known.

The mark is written before anything is removed, so that a removal which died half way reads as what it is. Whoever
makes the stage again replaces the folder, mark included; whoever finds all its data still there takes the mark off.
"""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

from profile_assets.errors import CorruptError, DiskError
from profile_assets.storage import atomic
from profile_assets.storage.carried import data_sizes, folder_carried, remove_data_carried, require_seen
from profile_assets.storage.layout import MANIFEST_FILE, MARK_FILE, Layout
from profile_assets.storage.records import FORMAT, read_json

_MARK_BYTES = 64 * 1024  # with the folders that it may take


def pruned_at(folder: Path) -> dt.datetime | None:
    """When the data of a committed stage was removed, in UTC; None where it was not."""
    path = folder / MARK_FILE
    if not path.exists():
        return None
    try:
        return dt.datetime.fromisoformat(read_json(path)["at"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(f"{path} lacks or bends {error}", remedy="remove it and run its day again") from error


def remove_data(layout: Layout, stage: str, day: dt.date, *, now: dt.datetime) -> None:
    """Remove everything of a committed stage but its manifest; the caller holds its lock."""
    folder = layout.stage(stage, day)
    require_seen(folder)
    if pruned_at(folder) is None:
        _mark(layout, folder, now)
    remove_data_carried(folder, (MANIFEST_FILE, MARK_FILE))
    with atomic.disk_errors("cannot remove", folder):
        for path in data_files(folder):
            path.unlink()
        atomic.fsync_path(folder)


def _mark(layout: Layout, folder: Path, now: dt.datetime) -> None:
    """Where there is no room for the mark, the largest file makes it: a death just then reads as a damaged stage."""
    mark = {"format": FORMAT, "at": now.isoformat(timespec="seconds")}
    try:
        atomic.write_json(folder / MARK_FILE, mark, staging=layout.scratch("records"))
    except DiskError:
        files = data_files(folder)
        if not files or shutil.disk_usage(folder).free > _MARK_BYTES:
            raise
        with atomic.disk_errors("cannot remove", folder):
            max(files, key=lambda path: path.stat().st_size).unlink()
        atomic.write_json(folder / MARK_FILE, mark, staging=layout.scratch("records"))


def data_files(folder: Path) -> list[Path]:
    """The files of a stage beside its manifest and the mark."""
    return [path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in (MANIFEST_FILE, MARK_FILE)]


def data_bytes(folder: Path) -> int:
    """The bytes of those files, where the truth lies."""
    there = data_sizes(folder, (MANIFEST_FILE, MARK_FILE))
    return sum(there.values()) if there else sum(path.lstat().st_size for path in data_files(folder))


def unmark(folder: Path) -> None:
    """The data is here after all: the removal died before it removed anything here, and somebody has use for it."""
    with folder_carried(folder, folder):  # on S3 it may have removed some
        atomic.remove_file(folder / MARK_FILE)
