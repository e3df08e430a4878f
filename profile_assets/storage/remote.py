"""A profile's folder whose truth lies on S3: what is committed here is committed there first.

With PROFILE_DATA=s3://bucket/prefix the local folder is a working copy. There is no rename on S3, so a commit is one
upload: a record or the table's file replaces the object that this copy last saw, and is refused if somebody else
replaced it meanwhile (LockedError: looking again, and going on from what lies there, is the remedy). A stage is many
files: each goes up under a name with its digest in it, where it disturbs nobody, and the manifest that names them all
is the one upload that makes them the day's truth. What a manifest names no more stays for a day, for whoever still
reads by the old one; `prune` removes it then.

What only this machine can use stays here: staging, locks, lookups, alerts, metrics, what a reconciliation scored.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from profile_assets.errors import CorruptError, LockedError, ProfileError
from profile_assets.storage.known_objects import KnownObjects
from profile_assets.storage.layout import MANIFEST_FILE, MARK_FILE, PART_FILE, ROWS, SEAL_FILE, day_of
from profile_assets.storage.objects import Objects, s3_client

T = TypeVar("T")
R = TypeVar("R")

FOLDER = "_remote"
TABLE = "feature_store/offline/"
_URL_FILE = "url.json"
_OWN = ("_staging", "_locks", FOLDER, "alerts", "metrics", "tuning", "feature_store/online")
_ROOMS = (*ROWS, "quarantine", "verdicts", "measures", "models", "feature_store", "reconcile", "shadow_scores")
_OWN_DAYS = ("reconcile/day=", "shadow_scores/day=")
_AT_ONCE = 8  # requests
_SEALS = (MANIFEST_FILE, SEAL_FILE)
"""What of a folder is written last."""


class Remote:
    """The objects of one profile, and what the working copy at `home` knows of them."""

    def __init__(self, home: Path, objects: Objects) -> None:
        self.home = home
        self.objects = objects
        self.known = KnownObjects(home / FOLDER / "objects.sqlite")

    def key(self, path: Path) -> str:
        """The key of a record or of the table's file."""
        return path.relative_to(self.home).as_posix()

    def put_file(self, staged: Path, final: Path) -> str:
        """Bring a file there; gives its ETag. LockedError where another object lies there than this copy knows."""
        return self._put(self.key(final), staged)

    def put_folder(self, staged: Path, final: Path) -> dict[str, tuple[str, int]]:
        """Bring a folder there, what seals it last; gives the ETag and the bytes of each object by its key."""
        digests = digests_in(staged / MANIFEST_FILE)
        names = [path.name for path in staged.iterdir() if path.name != MARK_FILE]

        def put(name: str) -> tuple[str, tuple[str, int]]:
            key = data_key(self.key(final / name), digests[name]) if name in digests else self.key(final / name)
            return key, (self._put(key, staged / name), (staged / name).stat().st_size)

        done = each([name for name in names if name not in _SEALS], put)
        return dict([*done, *map(put, (name for name in names if name in _SEALS))])

    def _put(self, key: str, source: Path) -> str:
        known = self.known.get(key)
        return self.objects.put(key, source, expected=None if known is None else known.etag)

    def remove(self, keys: list[str]) -> None:
        """Take objects out, there first. LockedError where one is another by now than this copy knows; rows have their
        digest in their name.
        """
        for key in keys:
            if not is_rows(key):
                self.require_known(key)
        self.objects.remove(keys)
        for key in keys:
            self.known.forget(key)

    def require_known(self, key: str) -> None:
        """LockedError where there is another object than this copy knows of; none at all is not another."""
        known, there = self.known.get(key), self.objects.etag(key)
        if there is not None and (known is None or known.etag != there):
            raise LockedError(
                f"{self.objects.url}/{key} is another by now than it was", remedy="look again: it was made meanwhile"
            )

    def fetch(self, key: str, target: Path) -> None:
        """Bring the object of a key to a path, by one rename."""
        part = self.scratch() / f"{target.name}.{os.getpid()}-{os.urandom(6).hex()}"
        try:
            etag = self.objects.fetch(key, part)
            target.parent.mkdir(parents=True, exist_ok=True)
            size = part.stat().st_size
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        self.known.hold(key, etag, size)

    def scratch(self) -> Path:
        """Where what comes from there is built."""
        folder = self.home / "_staging" / "remote"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def where(path: Path) -> str:
    """Where the truth of a path below a profile's folder lies."""
    remote = remote_of(path)
    return str(path) if remote is None else f"{remote.objects.url}/{remote.key(path)}"


def each(items: Sequence[T], do: Callable[[T], R]) -> list[R]:
    """Do it for each, several at once: they wait for the network. The first error ends it."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(do, items))


def data_key(key: str, digest: str) -> str:
    """The key of a stage's file: `.../shard-00-of-16.parquet` with a part of its digest before the suffix."""
    stem, dot, suffix = key.rpartition(".")
    return f"{stem}.{digest[:16]}{dot}{suffix}"


def digests_in(manifest: Path) -> dict[str, str]:
    """The digest of each file that a manifest names; nothing where there is no manifest."""
    return digests_of(manifest.read_bytes(), str(manifest)) if manifest.exists() else {}


def digests_of(manifest: bytes, name: str) -> dict[str, str]:
    """The same from the bytes of a manifest; `name` is what an error names."""
    try:
        return {entry["name"]: entry["digest"] for entry in json.loads(manifest)["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"{name} lacks or bends {error}", remedy="run its stage again") from error


def data_keys(folder: str, digests: Mapping[str, str]) -> dict[str, str]:
    """The key of each file of a stage's folder, by its name."""
    return {name: data_key(f"{folder}/{name}", digest) for name, digest in digests.items()}


def is_rows(key: str) -> bool:
    """Whether an object holds rows of a stage or of the table, which come when they are needed."""
    is_record = key.rpartition("/")[2] in (MANIFEST_FILE, MARK_FILE)
    return key.startswith(TABLE) or (key.partition("/")[0] in ROWS and not is_record)


def is_ours(key: str) -> bool:
    """Whether a key is one that a profile writes: what else lies below its prefix is somebody else's."""
    parts = key.split("/")
    if parts[0] not in _ROOMS or any(part in ("", ".", "..") for part in parts):
        return False
    if key.startswith(TABLE):
        return len(parts) == 4 and parts[3] == PART_FILE and day_of(parts[2]) is not None
    return is_carried(key)


def is_carried(relative: str) -> bool:
    """Whether a path below a profile's folder is one that others see."""
    is_own = any(relative == one or relative.startswith(f"{one}/") for one in _OWN)
    return not is_own and not relative.startswith(_OWN_DAYS)


def remote_of(path: Path) -> Remote | None:
    """The remote of the working copy that a path lies in; None where its truth is the path itself."""
    for home in path.parents:
        if (home / FOLDER / _URL_FILE).exists():
            return _opened(home, os.getpid()) if is_carried(path.relative_to(home).as_posix()) else None
    return None


@functools.lru_cache(maxsize=64)
def _opened(home: Path, process: int) -> Remote:  # noqa: ARG001 (a connection is not for a child)
    return Remote(home, Objects(_url_of(home), s3_client))


def _url_of(home: Path) -> str:
    path = home / FOLDER / _URL_FILE
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["url"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"{path} cannot be read: {error}", remedy="remove that folder: it is made anew") from error


def adopt(home: Path, url: str | None) -> None:
    """Make the folder of a profile the working copy of `url`, or see that it is none (`url` is None).

    ProfileError where it is the copy of something else, or holds a profile whose truth is the folder itself.
    """
    marker = home / FOLDER / _URL_FILE
    known = _url_of(home) if marker.exists() else None
    if known == url:
        return
    if known is not None:
        raise ProfileError(
            f"{home} is the working copy of {known}",
            remedy=f"set PROFILE_DATA to what that lies under, or PROFILE_WORK to another folder; "
            f"where that was a mistake and nothing lies there, remove {home}",
        )
    if home.exists() and any(is_carried(f"{path.name}/x") for path in home.iterdir()):
        raise ProfileError(
            f"{home} holds a profile of its own, and PROFILE_DATA is on S3",
            remedy="set PROFILE_WORK to a folder that is kept for the working copy",
        )
    marker.parent.mkdir(parents=True, exist_ok=True)
    staged = marker.with_suffix(f".{os.getpid()}")
    staged.write_text(json.dumps({"format": 1, "url": url}) + "\n", encoding="utf-8")
    staged.replace(marker)
