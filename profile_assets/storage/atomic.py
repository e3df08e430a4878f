"""How bytes become true: staged, fsynced, renamed; and the one lock that a writer holds.

A rename within one file system is the only commit. A folder is committed by moving the old one aside first:
between the two renames there is no folder at all, which reads as "not done", never as half of each.
Where the truth lies on S3 (`remote`), it is committed there just before.
Locks are the operating system's (flock): they vanish with their holder, however it dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from profile_assets.errors import DiskError, LockedError, StorageError
from profile_assets.storage.carried import file_carried, folder_carried, remove_carried

_AGAIN = ", then run that again; what was published stays as it was"
_WRITABLE = "make that folder writable for this user, then run the day again"
_REMEDIES = {
    errno.ENOSPC: f"free some space on that disk{_AGAIN}",
    errno.EDQUOT: f"free some of this user's quota on that disk{_AGAIN}",
    errno.EFBIG: f"raise the limit on the size of files{_AGAIN}",
    errno.EXDEV: "keep the profile's whole folder, _staging included, on one file system",
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.EROFS: _WRITABLE,
}
"""What trying again does not mend, and what does."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


_UNIQUE = re.compile(r"\.\d+-[0-9a-f]{12}$")


def unique_name(stem: str) -> str:
    """A name that no other process and no earlier run has used."""
    return f"{stem}.{os.getpid()}-{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def disk_errors(doing: str, path: Path) -> Iterator[None]:
    """Operating system errors as errors of ours, naming the path and what to do."""
    try:
        yield
    except OSError as error:
        raise disk_error(f"{doing} {path}: {error}", error) from error


def disk_error(what: str, error: OSError) -> DiskError | StorageError:
    """DiskError for what a person must see to, which trying again would not change; else StorageError."""
    if error.errno in _REMEDIES:
        return DiskError(what, remedy=_REMEDIES[error.errno])
    return StorageError(what, remedy=f"check that disk{_AGAIN}")


def fsync_path(path: Path) -> None:
    """Flush a file or a folder to the disk itself."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def empty_folder(path: Path) -> Path:
    """The folder, there and empty."""
    with disk_errors("cannot prepare", path):
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
    return path


def replace_file(staged: Path, final: Path) -> None:
    """Commit one staged file: readers see the old bytes or the new, never a mix."""
    with disk_errors("cannot commit", final):
        final.parent.mkdir(parents=True, exist_ok=True)
        fsync_path(staged)
        with file_carried(staged, final):
            staged.replace(final)
        fsync_path(final.parent)


def replace_folder(staged: Path, final: Path) -> None:
    """Commit a staged folder of files; what stood at `final` before is gone afterwards."""
    with disk_errors("cannot commit", final):
        for path in staged.rglob("*"):
            fsync_path(path)
        fsync_path(staged)
        final.parent.mkdir(parents=True, exist_ok=True)
        with folder_carried(staged, final):
            _swap_folder(staged, final)
        fsync_path(final.parent)
    remove_replaced(staged)


def _swap_folder(staged: Path, final: Path) -> None:
    if not final.exists():
        staged.replace(final)
        return
    aside = staged.parent / unique_name(f"{staged.name}.old")
    final.replace(aside)
    try:
        staged.replace(final)
    except OSError:
        aside.replace(final)
        raise


def remove_replaced(staged: Path) -> None:
    """Remove the folders that `staged` took the place of: now, or in runs that died before they came to it."""
    for left in staged.parent.glob(f"{glob.escape(staged.name)}.old.*"):
        with disk_errors("cannot remove", left):
            shutil.rmtree(left)


def remove_file(path: Path) -> None:
    """Remove a committed file, if it is there, so that it stays removed."""
    remove_carried(path)
    with disk_errors("cannot remove", path):
        path.unlink(missing_ok=True)
        if path.parent.exists():
            fsync_path(path.parent)


def write_json(path: Path, value: Any, *, staging: Path) -> None:
    """Write a record in one rename. `staging` is a folder on the same file system, outside any table."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"
    with disk_errors("cannot write", path), own_file(staging, path.name) as temporary:
        temporary.write_text(text, encoding="utf-8")
        replace_file(temporary, path)


@contextlib.contextmanager
def own_file(folder: Path, stem: str) -> Iterator[Path]:
    """A new empty file that no other process touches; it is gone afterwards, unless it was renamed.

    Its writer holds its lock while it lives. What writers in that folder left behind who were killed is removed: the
    system let go of their locks. Process ids would lie about that: they come again, and each container has its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    while True:
        path = folder / unique_name(stem)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # else it was swept before it was locked: another one
                yield path
                return
        finally:
            path.unlink(missing_ok=True)
            os.close(handle)


def _sweep(folder: Path) -> None:
    for path in [one for one in folder.iterdir() if _UNIQUE.search(one.name)]:
        # Renamed or swept just now; or being written; or of a user whose files are not ours to remove.
        with contextlib.suppress(FileNotFoundError, BlockingIOError, PermissionError):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


@contextlib.contextmanager
def locked(
    path: Path,
    *,
    what: str,
    is_shared: bool = False,
    wait_s: float = 600.0,
    poll_s: float = 0.1,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Iterator[None]:
    """Hold the lock file `path`: alone, to write; or with other readers (`is_shared`), so that nobody writes.

    Waits up to `wait_s` for the holder; `on_wait` is told once who that is. Raises LockedError when the wait is over.
    """
    handle = _open_lock(path)
    try:
        mode = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        _acquire(handle, path, mode, what=what, wait_s=wait_s, poll_s=poll_s, on_wait=on_wait)
        if not is_shared:
            _sign(handle, path)
        yield
    finally:
        os.close(handle)


def _sign(handle: int, path: Path) -> None:
    """Say who holds it, for people. A full disk has no room for that, and may be what the lock is wanted for."""
    with disk_errors("cannot write into the lock", path):
        os.ftruncate(handle, 0)
        try:
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            if error.errno not in _FULL:
                raise


def _open_lock(path: Path) -> int:
    try:
        with disk_errors("cannot open the lock", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except DiskError as error:
        if not path.exists():
            raise
        owner = path.stat().st_uid
        raise DiskError(
            f"{error.what}; it is a file of user {owner}, and this process is user {os.geteuid()}",
            remedy="run everything as one user: give that folder and what is in it to this one (chown -R)",
        ) from error


def _acquire(
    handle: int, path: Path, mode: int, *, what: str, wait_s: float, poll_s: float, on_wait: Callable[[str], None]
) -> None:
    give_up = time.monotonic() + wait_s
    told = False
    while True:
        try:
            return fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 64, 0).decode(errors="replace").strip() or "unknown"
        message = f"{what} is held by process {holder}"
        if time.monotonic() >= give_up:
            raise LockedError(
                f"{message} ({path}), waited {wait_s:g} s", remedy="let it finish or stop it, then run the day again"
            )
        if not told:
            on_wait(f"{message}; waiting up to {wait_s:g} s")
            told = True
        time.sleep(poll_s)
