"""The working copy of a profile on S3 brought up to date: records at once, rows when somebody needs them.

What changed there replaces what lies here, and what is gone there goes here: the truth is never here alone. A folder
that a process of this machine writes or reads at that moment is left until the next time. Whoever works on a day asks
for its rows as well (`days`); the table's file of any other day comes when it is opened.

Where the truth is the folder itself, nothing here does anything.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from profile_assets.errors import LockedError, StorageError
from profile_assets.storage import atomic
from profile_assets.storage.known_objects import Known
from profile_assets.storage.layout import MANIFEST_FILE, MARK_FILE, ROWS, Layout, day_of
from profile_assets.storage.objects import Listed
from profile_assets.storage.parquet import footer_in
from profile_assets.storage.records import FileEntry, read_manifest
from profile_assets.storage.remote import Remote, data_key, each, remote_of

_TABLE = "feature_store/offline/"
_SEAL = "bundle.json"
_TAIL_BYTES = 64 * 1024


def pull(layout: Layout, days: Sequence[dt.date] = ()) -> None:
    """Bring the working copy up to date, with the rows of `days`. StorageError where S3 cannot be reached.

    The caller holds no lock of those days: they are looked at with their locks held.
    """
    remote = remote_of(layout.home / MANIFEST_FILE)
    if remote is None:
        return
    with atomic.locked(layout.shared_lock("pull"), what=f"the working copy of {layout.name}"):
        before = remote.known.all()  # before the listing: what a process here adds meanwhile is not gone
        listed = remote.objects.listed()
        _forget(layout, remote, [key for key in before if key not in listed])
        for key, one in listed.items():
            if key not in before or before[key].etag != one.etag:
                _see(layout, remote, key, one, before.get(key))
        _fetch_records(layout, remote, listed)
    for day in days:
        for stage in ROWS:
            bring_rows(layout, stage, day)


def bring_rows(layout: Layout, stage: str, day: dt.date) -> None:
    """Fetch the files of a committed stage that this machine has not; none where they were pruned."""
    folder = layout.stage(stage, day)
    if remote_of(folder / MANIFEST_FILE) is None or not (folder / MANIFEST_FILE).exists():
        return
    with contextlib.suppress(LockedError):  # whoever holds it has them, or makes them anew
        with atomic.locked(layout.day_lock(stage, day), what=f"{stage} of {day}", is_shared=True, wait_s=0):
            if (folder / MARK_FILE).exists():
                return
            missing = [one for one in read_manifest(folder / MANIFEST_FILE).files if not (folder / one.name).exists()]
            each(missing, lambda entry: fetch_rows(folder / entry.name, entry))


def fetch_rows(path: Path, entry: FileEntry) -> bool:
    """Fetch one file of a committed stage, whatever lies here; False where the truth is what lies here."""
    remote = remote_of(path)
    if remote is None:
        return False
    try:
        remote.fetch(data_key(remote.key(path), entry.digest), path)
    except FileNotFoundError as error:
        raise StorageError(f"{error} is gone: its stage was made again", remedy="run that again") from error
    return True


def bring_part(path: Path) -> bool:
    """Fetch the table's file of a day, if there is one on S3."""
    remote = remote_of(path)
    if remote is None or remote.known.get(remote.key(path)) is None:
        return False
    try:
        remote.fetch(remote.key(path), path)
    except FileNotFoundError:  # withdrawn since
        return False
    return True


def days_there(layout: Layout) -> list[dt.date]:
    """The days of the table on S3, as they were when this copy was last brought up to date."""
    remote = remote_of(layout.home / MANIFEST_FILE)
    keys = () if remote is None else remote.known.all(_TABLE)
    return [day for key in keys if (day := day_of(key.split("/")[-2])) is not None]


def stamp_there(path: Path) -> str | None:
    """What tells the object of the table's file from another; None where there is none, or no S3."""
    remote = remote_of(path)
    known = None if remote is None else remote.known.get(remote.key(path))
    return None if known is None else known.etag


def footer_there(path: Path) -> Mapping[str, str] | None:
    """The footer's entries of the table's file on S3, without its rows; None where there is none, or no S3."""
    remote = remote_of(path)
    known = None if remote is None else remote.known.get(remote.key(path))
    if remote is None or known is None:
        return None
    key = remote.key(path)
    kept = remote.known.footer(key, known.etag)
    if kept is None:
        kept = json.dumps(footer_in(_tail(remote, key, known.size_bytes), path))
        remote.known.keep_footer(key, known.etag, kept)
    return dict(json.loads(kept))


def _tail(remote: Remote, key: str, size: int) -> bytes:
    """The end of a Parquet file, with all of its footer: its last 8 bytes tell how long that is."""
    tail, _ = remote.objects.get(key, start=max(0, size - _TAIL_BYTES))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    return tail if needed <= len(tail) else remote.objects.get(key, start=max(0, size - needed))[0]


def _see(layout: Layout, remote: Remote, key: str, one: Listed, before: Known | None) -> None:
    """Note that there is another object; what lies here of the old one goes, where nobody is at work on it."""
    with contextlib.suppress(LockedError), _left_alone(layout, key):
        if remote.known.see(key, one, before=before) and key.startswith(_TABLE):
            (remote.home / key).unlink(missing_ok=True)


def _forget(layout: Layout, remote: Remote, keys: Iterable[str]) -> None:
    for key in keys:
        with contextlib.suppress(LockedError), _left_alone(layout, key):
            path = remote.home / key
            remote.known.forget(key)
            if path.name == _SEAL or (path.name == MANIFEST_FILE and _stage_of(key) is not None):
                _remove_folder(layout, path.parent)
            else:
                path.unlink(missing_ok=True)


def _fetch_records(layout: Layout, remote: Remote, listed: Mapping[str, Listed]) -> None:
    """Everything but rows that is not here, or not as it is there."""
    known = remote.known.all()
    missing = [
        key
        for key in listed
        if not _is_rows(key) and key in known and not (known[key].is_held and (remote.home / key).exists())
    ]
    bundles = {key.rpartition("/")[0] for key in missing if key.startswith("models/b-")}
    for folder in bundles:
        if f"{folder}/{_SEAL}" in listed:  # else it is being made
            _fetch_bundle(layout, remote, folder, [key for key in listed if key.startswith(f"{folder}/")])
    marks = [key for key in missing if key.endswith(f"/{MARK_FILE}")]
    manifests = [key for key in missing if _stage_of(key) is not None and key.endswith(f"/{MANIFEST_FILE}")]
    for key in manifests:
        with contextlib.suppress(LockedError, FileNotFoundError), _left_alone(layout, key):
            _fetch_manifest(layout, remote, key)
    others = [key for key in missing if not key.startswith("models/b-") and key not in (*marks, *manifests)]
    each(others, lambda key: _fetch_if_there(remote, key))
    for key in marks:
        with contextlib.suppress(LockedError), _left_alone(layout, key):
            _fetch_if_there(remote, key)
            for path in (remote.home / key).parent.iterdir():
                if path.name not in (MANIFEST_FILE, MARK_FILE):
                    path.unlink()


def _fetch_if_there(remote: Remote, key: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # gone since the listing
        remote.fetch(key, remote.home / key)


def _fetch_manifest(layout: Layout, remote: Remote, key: str) -> None:
    """Take a manifest over; files that it describes as others than lie here go."""
    path = remote.home / key
    new = remote.scratch() / atomic.unique_name("manifest.json")
    remote.fetch(key, new)
    if path.exists() and path.read_bytes() == new.read_bytes():
        new.unlink()
        return
    _remove_folder(layout, path.parent)
    path.parent.mkdir(parents=True)
    new.replace(path)


def _fetch_bundle(layout: Layout, remote: Remote, folder: str, keys: Sequence[str]) -> None:
    """A bundle appears whole, as everything that is believed because it lies there."""
    staged = atomic.empty_folder(remote.scratch() / atomic.unique_name("bundle"))
    try:
        for key in keys:
            remote.fetch(key, staged / key.rpartition("/")[2])
        _remove_folder(layout, remote.home / folder)
        (remote.home / folder).parent.mkdir(parents=True, exist_ok=True)
        staged.replace(remote.home / folder)
    except FileNotFoundError:  # gone since the listing
        shutil.rmtree(staged)


def _remove_folder(layout: Layout, folder: Path) -> None:
    """Out of sight by one rename, then gone."""
    if folder.exists():
        aside = layout.scratch("remote") / atomic.unique_name(folder.name)
        with atomic.disk_errors("cannot remove", folder):
            aside.parent.mkdir(parents=True, exist_ok=True)
            folder.replace(aside)
            shutil.rmtree(aside)


@contextlib.contextmanager
def _left_alone(layout: Layout, key: str) -> Iterator[None]:
    """While nobody here reads or writes the stage's day that a key is of; LockedError where somebody does."""
    stage, day = _stage_of(key), day_of(key.split("/")[1]) if "/" in key else None
    if stage is None or day is None:
        yield
        return
    with atomic.locked(layout.day_lock(stage, day), what=f"{stage} of {day}", wait_s=0):
        yield


def _stage_of(key: str) -> str | None:
    stage = key.partition("/")[0]
    return stage if stage in ROWS else None


def _is_rows(key: str) -> bool:
    """Whether an object holds rows, which come when they are needed."""
    is_record = key.rpartition("/")[2] in (MANIFEST_FILE, MARK_FILE)
    return key.startswith(_TABLE) or (_stage_of(key) is not None and not is_record)
