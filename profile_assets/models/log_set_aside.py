"""A registry whose log is damaged, made movable again by somebody who says so: the log is set aside, not mended.

The damaged file stays, under a name with the moment. The new log begins with a line that says who set the other aside
and where it lies; what the pointers say follows it. What was stable before that is told by the old file alone, so that
nobody takes a history with a hole in it for the whole.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

from profile_assets.errors import BundleError, CorruptError
from profile_assets.models.pointers import change_in, read_pointer
from profile_assets.models.registry_log import Change, read_log
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout

STABLE = "stable"
ACTION = "set aside"


def set_log_aside(layout: Layout, *, by: str, why: str, now: dt.datetime | None = None) -> Path:
    """Begin a new log; gives where the old one lies. BundleError where the log can be read, no reason is given, or no
    pointer says what is stable: a registry without both would look as if it were empty.
    """
    if not by.strip() or not why.strip():
        raise BundleError("a log is set aside by somebody, for a reason", remedy='say why: --why "..."')
    with atomic.locked(layout.shared_lock("registry"), what=f"the registry of {layout.name}"):
        damage, stable = _damage(layout.registry_log), change_in(layout, STABLE)
        if stable is None or read_pointer(layout, STABLE) is None:
            raise BundleError(
                f"{layout.pointer(STABLE)} is gone, and nothing but the damaged log says what was stable",
                remedy=f"restore {layout.registry_log} from a copy, or take the line out that cannot be understood",
            )
        moment = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
        aside = layout.registry_log.with_name(f"log-set-aside-{moment:%Y%m%dT%H%M%S%f}Z.jsonl")
        _put(layout, aside, layout.registry_log.read_bytes())
        evidence = {"log": aside.name, "problem": damage, "at": moment.isoformat(), "set_by": stable.by}
        first = Change(
            pointer=STABLE,
            bundle_id=stable.bundle_id,
            before=stable.before,
            since=stable.since,
            by=by,
            why=why,
            action=ACTION,
            evidence=evidence,
        )
        _put(layout, layout.registry_log, json.dumps(first.to_json(), sort_keys=True).encode() + b"\n")
    return aside


def _damage(path: Path) -> str:
    try:
        read_log(path)
    except CorruptError as error:
        return error.what
    raise BundleError(f"{path} can be read, and is not set aside", remedy="move the pointer as usual")


def _put(layout: Layout, path: Path, content: bytes) -> None:
    with atomic.disk_errors("cannot write", path), atomic.own_file(layout.scratch("records"), path.name) as staged:
        staged.write_bytes(content)
        atomic.replace_file(staged, path)
