"""The registry: which bundle scores. A pointer is a small JSON file that is replaced in one rename. Knows no torch."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from pathlib import Path

from profile_assets.errors import BundleError, CorruptError
from profile_assets.models.bundle_files import SEAL
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

STABLE = "stable"
_BUNDLE_ID = re.compile(r"b-[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """What a pointer says: the bundle, since when (UTC, ISO 8601), set by whom and why."""

    bundle_id: str
    since: str
    by: str
    why: str


def read_pointer(layout: Layout, name: str) -> Pointer | None:
    """The pointer as it stands; None where it was never set; BundleError where it cannot be understood."""
    path = layout.pointer(name)
    if not path.exists():
        return None
    remedy = f"set the {name} bundle again; the bundles themselves are untouched"
    try:
        value = read_json(path)
        pointer = Pointer(**{key: value[key] for key in ("bundle_id", "since", "by", "why")})
    except (CorruptError, KeyError) as error:
        raise BundleError(f"the pointer {path} cannot be understood: {error}", remedy=remedy) from error
    if not _is_bundle_id(pointer.bundle_id):
        raise BundleError(f"{path} points to {pointer.bundle_id!r}, which is no bundle id", remedy=remedy)
    return pointer


def stable_bundle(layout: Layout) -> Path:
    """The folder of the bundle that scores."""
    pointer = read_pointer(layout, STABLE)
    if pointer is None:
        raise BundleError(f"{layout.name} has no stable bundle yet", remedy="train one: profile-assets train")
    _require_bundle(layout, pointer.bundle_id)
    return layout.bundle(pointer.bundle_id)


def set_first_stable(
    layout: Layout, bundle_id: str, why: str, *, by: str = "training", now: dt.datetime | None = None
) -> bool:
    """Make a bundle the stable one if there is none yet. Gives whether it did."""
    _require_bundle(layout, bundle_id)
    with atomic.locked(layout.shared_lock("registry"), what=f"the registry of {layout.name}"):
        if read_pointer(layout, STABLE) is not None:
            return False
        since = (now or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
        value = {"format": FORMAT, "bundle_id": bundle_id, "since": since, "by": by, "why": why}
        atomic.write_json(layout.pointer(STABLE), value, staging=layout.scratch("records"))
    return True


def _require_bundle(layout: Layout, bundle_id: str) -> None:
    if not _is_bundle_id(bundle_id):
        raise BundleError(f"{bundle_id!r} is no bundle id", remedy="give an id such as b-0123456789abcdef")
    if not (layout.bundle(bundle_id) / SEAL).is_file():
        raise BundleError(
            f"the bundle {bundle_id} is not in {layout.models}",
            remedy="restore it, promote another, or train a new one",
        )


def _is_bundle_id(value: object) -> bool:
    return isinstance(value, str) and _BUNDLE_ID.fullmatch(value) is not None
