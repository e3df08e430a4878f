"""What every commit and removal does first where the truth lies on S3, and nothing where it is the folder itself.

These stand around the renames and removals of `atomic` and `pruned`: the object goes up, or is taken out, before the
file here follows it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

from profile_assets.storage.layout import MANIFEST_FILE, MARK_FILE, ROWS
from profile_assets.storage.remote import data_keys, digests_in, digests_of, remote_of


@contextlib.contextmanager
def file_carried(staged: Path, final: Path) -> Iterator[None]:
    """Around the rename of a file: it is committed on S3 before, where the truth lies there."""
    remote = remote_of(final)
    if remote is None:
        yield
        return
    etag, size = remote.put_file(staged, final), staged.stat().st_size
    yield
    remote.known.hold(remote.key(final), etag, size)


@contextlib.contextmanager
def folder_carried(staged: Path, final: Path) -> Iterator[None]:
    """Around the rename of a folder: it is committed on S3 before. The mark of an older pruning goes after."""
    remote = remote_of(final / MANIFEST_FILE)
    if remote is None:
        yield
        return
    put = remote.put_folder(staged, final)
    yield
    for key, (etag, size) in put.items():
        remote.known.hold(key, etag, size)
    mark = remote.key(final / MARK_FILE)
    if remote.known.get(mark) is not None:
        remote.remove([mark])


def remove_carried(path: Path) -> None:
    """Take the object of a record or of the table's file out of S3, where the truth lies there."""
    remote = remote_of(path)
    if remote is not None:
        remote.remove([remote.key(path)])


def restore_carried(folder: Path) -> None:
    """Bring a committed folder there once more, where its manifest names rows that S3 has not any more."""
    remote = remote_of(folder / MANIFEST_FILE)
    if remote is not None and missing_there(folder):
        with folder_carried(folder, folder):
            pass


def missing_there(folder: Path) -> list[str]:
    """The files that a committed folder's manifest names and S3 has not, as this copy knows; none without S3."""
    remote = remote_of(folder / MANIFEST_FILE)
    if remote is None:
        return []
    known = remote.known.all(f"{remote.key(folder)}/")
    named = data_keys(remote.key(folder), digests_in(folder / MANIFEST_FILE))
    return [name for name, key in named.items() if key not in known]


def require_seen(folder: Path) -> None:
    """LockedError where a stage on S3 was made again since this copy looked."""
    remote = remote_of(folder / MANIFEST_FILE)
    if remote is not None:
        remote.require_known(remote.key(folder / MANIFEST_FILE))


def remove_superseded(path: Path) -> None:
    """Take out an object that no manifest names, looking at the manifest just before; nothing where it is named."""
    remote = remote_of(path)
    if remote is None:
        return
    key, folder = remote.key(path), remote.key(path.parent)
    manifest = f"{folder}/{MANIFEST_FILE}"
    try:
        digests = digests_of(remote.objects.get(manifest)[0], manifest)
    except FileNotFoundError:
        digests = {}
    if key not in data_keys(folder, digests).values():
        remote.remove([key])


def data_sizes(folder: Path, besides: tuple[str, ...]) -> dict[str, int]:
    """The bytes of a folder's objects on S3 by key, but of those named; nothing where the truth lies here."""
    remote = remote_of(folder / MANIFEST_FILE)
    if remote is None:
        return {}
    found = remote.known.all(f"{remote.key(folder)}/")
    return {key: one.size_bytes for key, one in found.items() if key.rpartition("/")[2] not in besides}


def superseded(home: Path, before: dt.datetime) -> dict[str, int]:
    """Objects that stages uploaded before that moment and that no manifest names any more: their bytes, by key.

    A manifest that is younger than the copy of it here names what was uploaded since that moment.
    """
    remote = remote_of(home / MANIFEST_FILE)
    if remote is None:
        return {}
    named = set[str]()
    found = {key: one for key, one in remote.objects.listed().items() if key.partition("/")[0] in ROWS}
    for folder in {key.rpartition("/")[0] for key in found}:
        named |= {f"{folder}/{name}" for name in (MANIFEST_FILE, MARK_FILE)}
        named |= set(data_keys(folder, digests_in(home / folder / MANIFEST_FILE)).values())
    return {key: one.size_bytes for key, one in found.items() if key not in named and one.at < before}


def remove_data_carried(folder: Path, besides: tuple[str, ...]) -> None:
    """Take a folder's objects out of S3, but those named."""
    remote = remote_of(folder / MANIFEST_FILE)
    if remote is not None:
        remote.remove(sorted(data_sizes(folder, besides)))
