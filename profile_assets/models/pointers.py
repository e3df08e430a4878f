"""A registry pointer as it lies on the disk: which bundle, since when, set by whom and why. Knows no torch.

It says everything that its line in the log says, so that either can be made from the other after a crash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from profile_assets.errors import BundleError, CorruptError
from profile_assets.models.registry_log import Change, parse_change
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

_BUNDLE_ID = re.compile(r"b-[0-9a-f]{16}")
_KEYS = ("bundle_id", "since", "by", "why")


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """What a pointer says: the bundle, since when (UTC, ISO 8601), set by whom and why."""

    bundle_id: str
    since: str
    by: str
    why: str


def read_pointer(layout: Layout, name: str) -> Pointer | None:
    """The pointer as it stands; None where it points to nothing; BundleError where it cannot be understood."""
    value = _read(layout, name)
    if value is None or value.get("is_cleared") is True:
        return None
    pointer = Pointer(**{key: value[key] for key in _KEYS})
    if not is_bundle_id(pointer.bundle_id):
        raise BundleError(
            f"{layout.pointer(name)} points to {pointer.bundle_id!r}, which is no bundle id", remedy=_set_again(name)
        )
    return pointer


def is_bundle_id(value: object) -> bool:
    """Whether this is written as the id of a bundle is."""
    return isinstance(value, str) and _BUNDLE_ID.fullmatch(value) is not None


def write_pointer(layout: Layout, change: Change) -> None:
    """Replace the pointer that `change` moves, in one rename. The caller holds the registry's lock."""
    value = {"format": FORMAT, **change.to_json(), "is_cleared": change.bundle_id is None}
    atomic.write_json(layout.pointer(change.pointer), value, staging=layout.scratch("records"))


def change_in(layout: Layout, name: str) -> Change | None:
    """The change that made a pointer what it is; None where it was never set. Earlier versions wrote a part of it."""
    value = _read(layout, name)
    if value is None:
        return None
    told = {key: value[key] for key in _KEYS}
    more = {key: value.get(key, default) for key, default in (("before", None), ("action", "set"), ("evidence", {}))}
    try:
        return parse_change({"pointer": name, **told, **more})
    except (TypeError, ValueError) as error:
        raise _not_understood(layout, name, error) from error


def _read(layout: Layout, name: str) -> dict[str, Any] | None:
    """A pointer's file; None where there is none."""
    path = layout.pointer(name)
    if not path.exists():
        return None
    try:
        value = read_json(path)
        for key in _KEYS:
            value[key]
    except (CorruptError, KeyError) as error:
        raise _not_understood(layout, name, error) from error
    return value


def _not_understood(layout: Layout, name: str, error: Exception) -> BundleError:
    return BundleError(f"the pointer {layout.pointer(name)} cannot be understood: {error}", remedy=_set_again(name))


def _set_again(name: str) -> str:
    return f"remove that file and set the {name} bundle again; the bundles themselves are untouched"
