"""What is written about data: the manifest of a stage, and its digest.

A manifest is written last and read first. Its digest covers what the data is and what it was made from, but not
when it was made or how long that took: the same work done twice has the same digest. It stands in the manifest too, so
that one which was changed, or lies where another belongs, is never taken for the truth.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError
from profile_assets.storage.atomic import disk_error
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import day_of

FORMAT = 1
_REDO = "remove that file and run its day again"
_RUN_AGAIN = "run that stage of its day again"


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One data file of a stage. `seconds` is how long it took to make, 0 when it was kept from before."""

    name: str
    rows: int
    size_bytes: int
    digest: str
    keys: KeySet
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a stage wrote for a day.

    `made_from` maps the name of each input (a stage, "bundle", "code") to its digest; `facts` holds counts and
    settings that belong to the data (quarantined rows by reason, ...); `notes` what does not (timings, versions).
    """

    stage: str
    day: str
    files: tuple[FileEntry, ...]
    made_from: Mapping[str, str]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.files)

    @property
    def keys(self) -> KeySet:
        return KeySet.total(entry.keys for entry in self.files)

    @property
    def digest(self) -> str:
        """sha256 over everything but timings and notes."""
        value = self._told()
        del value["notes"]
        for entry in value["files"]:
            del entry["seconds"]
        return digest_of(value)

    def to_json(self) -> dict[str, Any]:
        return {**self._told(), "digest": self.digest}

    def _told(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "stage": self.stage,
            "day": self.day,
            "rows": self.rows,
            "keys": self.keys.to_json(),
            "files": [_file_to_json(entry) for entry in self.files],
            "made_from": dict(self.made_from),
            "facts": dict(self.facts),
            "notes": dict(self.notes),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        return cls(
            stage=value["stage"],
            day=value["day"],
            files=tuple(_file_from_json(entry) for entry in value["files"]),
            made_from=value["made_from"],
            facts=value["facts"],
            notes=value["notes"],
        )


def _file_to_json(entry: FileEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "rows": entry.rows,
        "size_bytes": entry.size_bytes,
        "digest": entry.digest,
        "keys": entry.keys.to_json(),
        "seconds": entry.seconds,
    }


def _file_from_json(value: Mapping[str, Any]) -> FileEntry:
    return FileEntry(**{**value, "keys": KeySet.from_json(value["keys"])})


def digest_of(value: Any) -> str:
    """sha256 of a JSON value in canonical form (sorted keys, no blanks, no NaN)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """A record as it was written; CorruptError where it is not JSON or not of a format known here."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError) as error:
        raise CorruptError(f"{path} cannot be read: {error}", remedy=_REDO) from error
    except OSError as error:  # the disk, not the record
        raise disk_error(f"{path} cannot be read: {error}", error) from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise CorruptError(
            f"{path} is not a record of format {FORMAT}",
            remedy="it was written by another version: run its day again, or use that version",
        )
    return value


def days_recorded(folder: Path) -> list[dt.date]:
    """The days that have a record of their own in a folder, oldest first; copies by other names are not ours."""
    stems = (path.stem for path in folder.glob("????-??-??.json"))
    return sorted(day for stem in stems if (day := day_of(f"day={stem}")) is not None)


def read_manifest(path: Path) -> Manifest:
    """The manifest at `path`: its sums and its digest checked, and that it is of the stage and day of its folder."""
    value = read_json(path)
    try:
        manifest = Manifest.from_json(value)
        whole = value["rows"] == manifest.rows and KeySet.from_json(value["keys"]) == manifest.keys
        told, digest = value["digest"], manifest.digest
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{path} lacks or bends {error}", remedy=_RUN_AGAIN) from error
    if not whole:
        raise CorruptError(f"{path}: its files do not add up to its rows", remedy=_RUN_AGAIN)
    if told != digest:
        raise CorruptError(f"{path} was changed: it is not what its digest was taken of", remedy=_RUN_AGAIN)
    require_place(manifest, path.parent)
    return manifest


def require_place(manifest: Manifest, folder: Path) -> None:
    """CorruptError unless `folder` is one of the manifest's stage and day."""
    if (folder.parent.name, folder.name) != (manifest.stage, f"day={manifest.day}"):
        raise CorruptError(f"the manifest in {folder} is that of {manifest.stage} of {manifest.day}", remedy=_RUN_AGAIN)
