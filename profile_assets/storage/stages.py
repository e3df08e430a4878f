"""A stage's day on disk: built in staging, sealed by its manifest, committed as one folder, and read back.

The order is always the same. A stage fills `layout.staging(stage, day)`, describes each file by *re-reading* it
(`describe`), seals the folder (`seal`), is judged, and is committed (`commit`). What reads a stage asks `require`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profile_assets.errors import CorruptError, DataError
from profile_assets.storage import atomic
from profile_assets.storage.carried import restore_carried
from profile_assets.storage.keys import KeySet, key_set, md5_words
from profile_assets.storage.layout import MANIFEST_FILE, Layout
from profile_assets.storage.parquet import file_digest, is_text, iter_batches
from profile_assets.storage.pruned import pruned_at, unmark
from profile_assets.storage.pulling import fetch_rows
from profile_assets.storage.records import FileEntry, Manifest, read_manifest, require_place
from profile_assets.storage.written import IdOrder, Written

ID_COLUMN = "user_id"
SeeIds = Callable[[np.ndarray], None] | None


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A sealed stage that is not the day's truth yet."""

    folder: Path
    manifest: Manifest


def describe(
    path: Path,
    *,
    seconds: float = 0.0,
    written: Written | None = None,
    found: IdOrder | None = None,
    see_ids: SeeIds = None,
) -> FileEntry:
    """One data file, counted and digested from what is on disk.

    `written` spares the hashing of its ids, where nobody is to see their md5 words on the way (`see_ids`); `found`, its
    ids as the caller has just read them, spares the reading.
    """
    keys = keys_on_disk(path, written, found=found, see_ids=see_ids)
    return FileEntry(
        name=path.name,
        rows=keys.count,
        size_bytes=path.stat().st_size,
        digest=file_digest(path),
        keys=keys,
        seconds=round(seconds, 6),
    )


def keys_on_disk(
    path: Path, written: Written | None = None, *, found: IdOrder | None = None, see_ids: SeeIds = None
) -> KeySet:
    """The key set of the ids in a file. Those of `written`, if it holds these very ids in this order."""
    if written is not None and see_ids is None and written.are(ids_on_disk(path) if found is None else found):
        return written.keys
    keys = KeySet()
    for batch in iter_batches(path, columns=[ID_COLUMN]):
        words = md5_words(batch.column(0))
        if see_ids is not None:
            see_ids(words)
        keys += key_set(words)
    return keys


def ids_on_disk(path: Path) -> IdOrder:
    """The ids in a file, in their order."""
    order = IdOrder()
    for batch in iter_batches(path, columns=[ID_COLUMN]):
        order.add(batch.column(0))
    return order


def stage_options(schema: pa.Schema) -> dict[str, Any]:
    """How a ParquetSink writes what only this package reads, whole and a few times: as cheaply as can be.

    No statistics; dictionaries for text but for the id, of which every value is another; numbers split into their
    bytes, after which lz4 packs them as tightly as zstd does, at a third of its cost.
    """
    text = [field.name for field in schema if is_text(field.type) and field.name != ID_COLUMN]
    floats = [field.name for field in schema if pa.types.is_float32(field.type) or pa.types.is_float64(field.type)]
    return {"dictionary": text, "split": floats, "compression": "lz4", "has_statistics": False}


def seal(layout: Layout, day: dt.date, manifest: Manifest) -> Staged:
    """Write the manifest into the staged folder: nothing is added to it after this."""
    folder = layout.staging(manifest.stage, day)
    require_place(manifest, folder)
    atomic.write_json(folder / MANIFEST_FILE, manifest.to_json(), staging=layout.scratch("records"))
    return Staged(folder=folder, manifest=manifest)


def commit(layout: Layout, day: dt.date, staged: Staged) -> Manifest:
    """Make the staged folder the day's truth. Whatever an earlier run left there is gone.

    A stage that found its committed work still valid hands that folder in, and it stays. CorruptError for a
    folder that was sealed with another manifest, or for another day.
    """
    final = layout.stage(staged.manifest.stage, day)
    require_place(staged.manifest, final)
    if staged.folder != final:
        if read_manifest(staged.folder / MANIFEST_FILE).digest != staged.manifest.digest:
            raise CorruptError(f"{staged.folder} was sealed with another manifest", remedy="run that stage again")
        atomic.replace_folder(staged.folder, final)
    elif pruned_at(final) is not None:
        unmark(final)
    else:
        restore_carried(final)
    atomic.remove_replaced(layout.staging(staged.manifest.stage, day))  # of a run that died before it could
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
    removed = pruned_at(layout.stage(stage, day))
    if removed is not None:
        raise DataError(
            f"the data of {stage} of {day} was pruned on {removed:%Y-%m-%d}",
            remedy=f"run the day again from its source: profile-assets backfill {day} {day} --again",
        )
    for entry in manifest.files:
        verify(layout.stage(stage, day) / entry.name, entry)
    return manifest


def verify(path: Path, entry: FileEntry) -> None:
    """CorruptError unless the file at `path` holds the bytes that `entry` describes, or does once it is fetched."""
    if not (is_whole(path, entry) or (fetch_rows(path, entry) and is_whole(path, entry))):
        raise CorruptError(f"{path} is not the file that its manifest describes", remedy="run that stage again")


def is_whole(path: Path, entry: FileEntry) -> bool:
    """Whether the bytes on disk are those that `entry` describes."""
    return path.exists() and path.stat().st_size == entry.size_bytes and file_digest(path) == entry.digest
