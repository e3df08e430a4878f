"""A stage's day on disk: built in staging, sealed by its manifest, committed as one folder, and read back.

The order is always the same. A stage fills `layout.staging(stage, day)`, describes each file by *re-reading* it
(`describe`), seals the folder (`seal`), is judged, and is committed (`commit`). What reads a stage asks `require`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profile_assets.errors import CorruptError, DataError
from profile_assets.storage import atomic
from profile_assets.storage.keys import KeySet, key_set, md5_words
from profile_assets.storage.layout import MANIFEST_FILE, Layout
from profile_assets.storage.parquet import file_digest, iter_batches
from profile_assets.storage.records import FileEntry, Manifest, read_manifest

ID_COLUMN = "user_id"


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A sealed stage that is not the day's truth yet."""

    folder: Path
    manifest: Manifest


def describe(
    path: Path, *, seconds: float = 0.0, see_ids: Callable[[np.ndarray], None] = lambda _words: None
) -> FileEntry:
    """One data file, counted and digested from what is on disk. `see_ids` is shown the ids' md5 words on the way."""
    keys = KeySet()
    for batch in iter_batches(path, columns=[ID_COLUMN]):
        words = md5_words(batch.column(0))
        see_ids(words)
        keys += key_set(words)
    return FileEntry(
        name=path.name,
        rows=keys.count,
        size_bytes=path.stat().st_size,
        digest=file_digest(path),
        keys=keys,
        seconds=round(seconds, 6),
    )


def seal(layout: Layout, day: dt.date, manifest: Manifest) -> Staged:
    """Write the manifest into the staged folder: nothing is added to it after this."""
    folder = layout.staging(manifest.stage, day)
    atomic.write_json(folder / MANIFEST_FILE, manifest.to_json(), staging=layout.scratch("records"))
    return Staged(folder=folder, manifest=manifest)


def commit(layout: Layout, day: dt.date, staged: Staged) -> Manifest:
    """Make the staged folder the day's truth. Whatever an earlier run left there is gone.

    A stage that found its committed work still valid hands that folder in, and nothing happens.
    """
    final = layout.stage(staged.manifest.stage, day)
    if staged.folder != final:
        atomic.replace_folder(staged.folder, final)
    return staged.manifest


def current(layout: Layout, stage: str, day: dt.date) -> Manifest | None:
    """The committed manifest of a stage's day; None where the stage is not done."""
    path = layout.manifest(stage, day)
    return read_manifest(path) if path.exists() else None


def require(layout: Layout, stage: str, day: dt.date) -> Manifest:
    """The committed manifest, every file of it verified by size and digest against the disk."""
    manifest = current(layout, stage, day)
    if manifest is None:
        raise DataError(f"{stage} of {day} is not there", remedy=f"materialize {stage} of {day} first")
    for entry in manifest.files:
        verify(layout.stage(stage, day) / entry.name, entry)
    return manifest


def verify(path: Path, entry: FileEntry) -> None:
    """CorruptError unless the file at `path` holds the bytes that `entry` describes."""
    if not is_whole(path, entry):
        raise CorruptError(f"{path} is not the file that its manifest describes", remedy="run that stage again")


def is_whole(path: Path, entry: FileEntry) -> bool:
    """Whether the bytes on disk are those that `entry` describes."""
    return path.exists() and path.stat().st_size == entry.size_bytes and file_digest(path) == entry.digest
