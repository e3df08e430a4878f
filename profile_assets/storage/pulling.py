"""The working copy of a profile on S3 brought up to date: records at once, rows when somebody needs them.

What changed there replaces what lies here, and what is gone there goes here: the truth is never here alone. A folder
that a process of this machine writes or reads at that moment is left until the next time. Whoever works on a day asks
for its rows as well (`days`); the table's file of any other day comes when it is opened.

Where the truth is the folder itself, nothing here does anything.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from profile_assets.errors import CorruptError, LockedError
from profile_assets.storage import atomic
from profile_assets.storage.known_objects import Known
from profile_assets.storage.layout import MANIFEST_FILE, MARK_FILE, ROWS, SEAL_FILE, Layout, day_of
from profile_assets.storage.objects import Listed
from profile_assets.storage.parts_there import fetch
from profile_assets.storage.records import FileEntry, read_manifest
from profile_assets.storage.remote import TABLE, Remote, data_key, each, is_ours, is_rows, remote_of

_MODELS = "models/"


def pull(layout: Layout, days: Sequence[dt.date] = ()) -> None:
    """Bring the working copy up to date, with the rows of `days`. StorageError where S3 cannot be reached.

    The caller holds no lock of those days: they are looked at with their locks held.
    """
    remote = remote_of(layout.home / MANIFEST_FILE)
    if remote is None:
        return
    with atomic.locked(layout.shared_lock("pull"), what=f"the working copy of {layout.name}"):
        known = remote.known.all()  # before the listing: what is added meanwhile is not gone
        if not known:
            remote.objects.require_conditions()
        before = known or _lying_here(remote)
        listed = {key: one for key, one in remote.objects.listed().items() if is_ours(key)}
        if before and not listed:
            raise CorruptError(
                f"{remote.objects.url} is empty, and {remote.home} is a copy of {len(before):,} objects of it",
                remedy=f"see that PROFILE_DATA and its server are right; if all of it is to go, remove {remote.home}",
            )
        _forget(layout, remote, [key for key in before if key not in listed])
        for key, one in listed.items():
            if key not in known or known[key].etag != one.etag:
                _see(layout, remote, key, one, known.get(key))
        _fetch_records(layout, remote, listed)
    for day in days:
        for stage in ROWS:
            bring_rows(layout, stage, day)


def pull_registry(layout: Layout) -> None:
    """Bring the pointers and their log up to date; the caller holds the registry's lock, and is about to move them."""
    remote = remote_of(layout.home / MANIFEST_FILE)
    if remote is None:
        return
    known = remote.known.all(_MODELS)
    listed = {key: one for key, one in remote.objects.listed(_MODELS).items() if is_ours(key)}
    for key in (key for key in {**known, **listed} if not key.startswith(f"{_MODELS}b-")):
        if key not in listed:
            remote.known.forget(key)
            (remote.home / key).unlink(missing_ok=True)
        elif key not in known or known[key].etag != listed[key].etag:
            fetch(remote, key, remote.home / key)


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
            each(missing, lambda entry: _fetch_if_whole(folder / entry.name, entry))


def _fetch_if_whole(path: Path, entry: FileEntry) -> None:
    with contextlib.suppress(CorruptError):  # told by whoever needs that very file; others may be about to make it anew
        fetch_rows(path, entry)


def fetch_rows(path: Path, entry: FileEntry) -> bool:
    """Fetch one file of a committed stage, whatever lies here; False where the truth is what lies here."""
    remote = remote_of(path)
    if remote is None:
        return False
    try:
        fetch(remote, data_key(remote.key(path), entry.digest), path)
    except FileNotFoundError as error:
        remote.require_known(remote.key(path.parent / MANIFEST_FILE))  # else its stage was made again
        raise CorruptError(
            f"{error} is gone, and its manifest names it", remedy="run that day again: profile-assets backfill --again"
        ) from error
    return True


def _see(layout: Layout, remote: Remote, key: str, one: Listed, before: Known | None) -> None:
    """Note that there is another object; what lies here of the old one goes, where nobody is at work on it."""
    with contextlib.suppress(LockedError), _left_alone(layout, key):
        if remote.known.see(key, one, before=before) and key.startswith(TABLE):
            (remote.home / key).unlink(missing_ok=True)


def _forget(layout: Layout, remote: Remote, keys: Iterable[str]) -> None:
    for key in keys:
        with contextlib.suppress(LockedError), _left_alone(layout, key):
            path = remote.home / key
            remote.known.forget(key)
            if path.name == SEAL_FILE or (path.name == MANIFEST_FILE and _stage_of(key) is not None):
                _remove_folder(remote, path.parent)
            else:
                path.unlink(missing_ok=True)


def _fetch_records(layout: Layout, remote: Remote, listed: Mapping[str, Listed]) -> None:
    """Everything but rows that is not here, or not as it is there."""
    known = remote.known.all()
    missing = [
        key
        for key in listed
        if not is_rows(key) and key in known and not (known[key].is_held and (remote.home / key).exists())
    ]
    bundles = {key.rpartition("/")[0] for key in missing if key.startswith("models/b-")}
    for folder in bundles:
        if f"{folder}/{SEAL_FILE}" in listed:  # else it is being made
            _fetch_bundle(remote, folder, [key for key in listed if key.startswith(f"{folder}/")])
    marks = [key for key in missing if key.endswith(f"/{MARK_FILE}")]
    manifests = [key for key in missing if _stage_of(key) is not None and key.endswith(f"/{MANIFEST_FILE}")]
    for key in manifests:
        with contextlib.suppress(LockedError, FileNotFoundError), _left_alone(layout, key):
            _fetch_manifest(remote, key)
    others = [key for key in missing if not key.startswith("models/b-") and key not in (*marks, *manifests)]
    each(others, lambda key: _fetch_if_there(layout, remote, key))
    for key in marks:
        with contextlib.suppress(LockedError, FileNotFoundError), _left_alone(layout, key):
            fetch(remote, key, remote.home / key)
            for path in (remote.home / key).parent.iterdir():
                if path.name not in (MANIFEST_FILE, MARK_FILE):
                    path.unlink()


def _fetch_if_there(layout: Layout, remote: Remote, key: str) -> None:
    # Gone since the listing; or somebody here is about to replace what it read: whoever writes has its lock.
    with contextlib.suppress(FileNotFoundError, LockedError), _left_alone(layout, key):
        fetch(remote, key, remote.home / key)


def _fetch_manifest(remote: Remote, key: str) -> None:
    """Take a manifest over; files that it describes as others than lie here go."""
    path = remote.home / key
    new = remote.scratch() / atomic.unique_name("manifest.json")
    fetch(remote, key, new)
    if path.exists() and path.read_bytes() == new.read_bytes():
        new.unlink()
        return
    _remove_folder(remote, path.parent)
    path.parent.mkdir(parents=True)
    new.replace(path)


def _fetch_bundle(remote: Remote, folder: str, keys: Sequence[str]) -> None:
    """A bundle appears whole, as everything that is believed because it lies there."""
    staged = atomic.empty_folder(remote.scratch() / atomic.unique_name("bundle"))
    try:
        for key in keys:
            fetch(remote, key, staged / key.rpartition("/")[2])
        _remove_folder(remote, remote.home / folder)
        (remote.home / folder).parent.mkdir(parents=True, exist_ok=True)
        staged.replace(remote.home / folder)
    except FileNotFoundError:  # gone since the listing
        shutil.rmtree(staged)


def _remove_folder(remote: Remote, folder: Path) -> None:
    """Out of sight by one rename, then gone."""
    if folder.exists():
        aside = remote.scratch() / atomic.unique_name(folder.name)
        with atomic.disk_errors("cannot remove", folder):
            folder.replace(aside)
            shutil.rmtree(aside)


@contextlib.contextmanager
def _left_alone(layout: Layout, key: str) -> Iterator[None]:
    """While nobody here reads what a key is of, to write it: LockedError where somebody does."""
    lock = lock_of(layout, key)
    if lock is None:
        yield
        return
    with atomic.locked(lock, what=key, wait_s=0):
        yield


def lock_of(layout: Layout, key: str) -> Path | None:
    """The lock that writers of a key hold from reading it on."""
    room, _, rest = key.partition("/")
    if room == "models":
        return None if rest.startswith("b-") else layout.shared_lock("registry")
    stem = rest.removeprefix("offline/").removeprefix("publish/").removeprefix("withdrawn/").partition("/")[0]
    day = day_of(f"day={stem.removesuffix('.json').rpartition('=')[2]}")
    what = {"verdicts": "verdict", "feature_store": "publish"}.get(room, room if room in ROWS else None)
    return None if what is None or day is None else layout.day_lock(what, day)


def _stage_of(key: str) -> str | None:
    stage = key.partition("/")[0]
    return stage if stage in ROWS else None


def _lying_here(remote: Remote) -> dict[str, Known]:
    """What a copy that lost its table of objects holds: all of it is looked at anew, and goes where it is gone."""
    keys = (path.relative_to(remote.home).as_posix() for path in remote.home.rglob("*") if path.is_file())
    unknown = Known(etag="", size_bytes=0, is_held=False)
    return {key: unknown for key in keys if is_ours(key) and (not is_rows(key) or key.startswith(TABLE))}
