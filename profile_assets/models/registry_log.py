"""The registry's log: who moved which pointer, when, why, from which bundle to which. Appended to, never changed.

One JSON object a line. A line that a crash cut short was told to nobody: readers pass over it where it is the last
one, and the next append takes it away. Any other line that cannot be read is an error, never left out.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError
from profile_assets.storage.atomic import disk_errors, fsync_path


@dataclass(frozen=True, kw_only=True)
class Change:
    """One move of a pointer, from bundle `before` to `bundle_id` (None: it points to nothing), at `since` (UTC, ISO).

    `action` is what was asked for: first, promote, rollback, set, clear. `evidence` is what a gate found before.
    """

    pointer: str
    bundle_id: str | None
    before: str | None
    since: str
    by: str
    why: str
    action: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> dt.datetime:
        """`since` as an aware moment."""
        return dt.datetime.fromisoformat(self.since)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_change(value: Mapping[str, Any]) -> Change:
    """A change as it was written. KeyError, TypeError or ValueError where it is none."""
    change = Change(**value)
    if change.at.tzinfo is None:
        raise ValueError(f"the moment {change.since!r} has no zone")
    return change


def read_log(path: Path) -> tuple[Change, ...]:
    """Every change, oldest first; CorruptError naming the first line that is none."""
    if not path.exists():
        return ()
    with disk_errors("cannot read", path):
        content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    return tuple(_parse(path, number, line) for number, line in enumerate(whole.splitlines(), start=1))


def _parse(path: Path, number: int, line: bytes) -> Change:
    try:
        return parse_change(json.loads(line))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(
            f"{path}: line {number} cannot be understood: {error}",
            remedy="restore that file from a copy, or take that line out; the pointers themselves are untouched",
        ) from error


def append(path: Path, change: Change) -> None:
    """Add a change, on the disk when this returns. The caller holds the registry's lock."""
    line = json.dumps(change.to_json(), sort_keys=True, allow_nan=False).encode() + b"\n"
    is_new = not path.exists()
    with disk_errors("cannot write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            if not is_new:
                os.ftruncate(file.fileno(), _whole_bytes(path))
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            fsync_path(path.parent)


def _whole_bytes(path: Path) -> int:
    """Up to the end of the last line that was finished."""
    return path.read_bytes().rfind(b"\n") + 1
