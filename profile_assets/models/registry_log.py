"""The registry's log: who moved which pointer, when, why, from which bundle to which. Appended to, never changed.

One JSON object a line. A last line that was cut short was told to nobody: readers pass over it, and the next append
takes it away. Any other line that cannot be read is an error, never left out.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError
from profile_assets.storage.atomic import disk_errors, own_file, replace_file


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
            remedy="the pointers themselves are untouched; restore that file from a copy, or begin another log: "
            '`profile-assets models set-aside-log --why "..."`',
        ) from error


def append(path: Path, change: Change, *, staging: Path) -> None:
    """Add a change, committed when this returns: the log with one line more takes its place by one rename. The caller
    holds the registry's lock. `staging` is a folder on the same file system.
    """
    line = json.dumps(change.to_json(), sort_keys=True, allow_nan=False).encode() + b"\n"
    with disk_errors("cannot write", path), own_file(staging, path.name) as longer:
        known = path.read_bytes() if path.exists() else b""
        longer.write_bytes(known[: known.rfind(b"\n") + 1] + line)
        replace_file(longer, path)
