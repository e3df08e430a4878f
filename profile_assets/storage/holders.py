"""Who holds a lock, without waiting for it: for people, and for whoever would rather leave a busy day alone.

Looking needs no more than to read the file. Where not even that is allowed, or a file system cannot tell, the holder is
unknown: nobody who leaves a busy day alone takes that for a free one.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Holder:
    """`pid` is what the last writer wrote into the lock, None for one that readers share. `is_alive`: there is such a
    process on this machine. The lock is held in any case: by another machine, or by a child, if not by that process.
    Unless `is_known`, it cannot be told whether anybody holds it.
    """

    pid: int | None
    is_alive: bool
    is_known: bool = True

    def __str__(self) -> str:
        if not self.is_known:
            return "unknown: the lock cannot be looked at"
        if self.pid is None:
            return "readers"
        return f"process {self.pid} ({'alive' if self.is_alive else 'not on this machine'})"


_UNKNOWN = Holder(pid=None, is_alive=False, is_known=False)


def holder(path: Path) -> Holder | None:
    """Who holds the lock file at `path`; None where nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return _UNKNOWN
    try:
        if _is_free(handle, fcntl.LOCK_SH):
            # Free for readers: nobody writes, though somebody may read. Being refused to write tells.
            return None if _is_free(handle, fcntl.LOCK_EX) else Holder(pid=None, is_alive=True)
        return _said(os.pread(handle, 4096, 0).decode(errors="replace"))
    except OSError:  # on NFS only who may write is given a lock to write
        return _UNKNOWN
    finally:
        os.close(handle)


def is_running(pid: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _is_free(handle: int, mode: int) -> bool:
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _said(text: str) -> Holder:
    words = text.split()
    if not words or not words[0].isdigit():
        return Holder(pid=None, is_alive=True)
    pid = int(words[0])
    return Holder(pid=pid, is_alive=is_running(pid))
