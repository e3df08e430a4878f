"""The table's files on S3, where the truth lies there: which days there are, their footers, and one of them fetched.

Where the truth is the folder itself, there is nothing.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path

from profile_assets.storage import atomic
from profile_assets.storage.layout import MANIFEST_FILE, Layout, day_of
from profile_assets.storage.parquet import footer_in
from profile_assets.storage.remote import TABLE, Remote, remote_of

_TAIL_BYTES = 64 * 1024


def bring_part(path: Path) -> bool:
    """Fetch the table's file of a day, if there is one on S3."""
    remote = remote_of(path)
    if remote is None or remote.known.get(remote.key(path)) is None:
        return False
    try:
        fetch(remote, remote.key(path), path)
    except FileNotFoundError:  # withdrawn since
        return False
    return True


def days_there(layout: Layout) -> list[dt.date]:
    """The days of the table on S3, as they were when this copy was last brought up to date."""
    remote = remote_of(layout.home / MANIFEST_FILE)
    keys = () if remote is None else remote.known.all(TABLE)
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


def fetch(remote: Remote, key: str, target: Path) -> None:
    """FileNotFoundError where there is no such object; what the disk says against it is an error of ours."""
    try:
        remote.fetch(key, target)
    except OSError as error:
        if error.errno is None:
            raise
        raise atomic.disk_error(f"cannot fetch {target}: {error}", error) from error
