"""Which bundle scores a day: what is stable now, what was stable when the day was due, or one by its id. No torch.

A model that was made after a day was due has seen what that day could not know. It may score the day all the same;
`is_later` says so, for whoever reads or evaluates those scores.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from profile_assets.errors import BundleError
from profile_assets.models import registry
from profile_assets.models.bundle_files import PROVENANCE, read_part
from profile_assets.models.pointers import is_bundle_id
from profile_assets.storage.layout import Layout

STABLE, AS_OF = "stable", "as-of"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The bundle of a day, and what was asked for: stable, as-of, or an id.

    `is_later`: it was made after the day was due; None where it does not say when it was made.
    """

    asked: str
    path: Path
    made_at: dt.datetime | None
    is_later: bool | None

    @property
    def bundle_id(self) -> str:
        return self.path.name


def choose(layout: Layout, asked: str, due: dt.datetime) -> Chosen:
    """The bundle of a day that was due at that aware moment. BundleError where there is none, or it is not there."""
    if asked == STABLE:
        path = registry.stable_bundle(layout)
    elif asked == AS_OF:
        path = _as_of(layout, due)
    else:
        path = _named(layout, asked)
    return Chosen(
        asked=asked, path=path, made_at=made_at_of(layout, path.name), is_later=is_later(layout, path.name, due)
    )


def made_at_of(layout: Layout, bundle_id: str) -> dt.datetime | None:
    """When a bundle was made; None where it does not say, or can no longer be read."""
    try:
        told = read_part(layout.bundle(bundle_id), PROVENANCE).get("made_at")
        moment = dt.datetime.fromisoformat(told) if isinstance(told, str) else None
    except (BundleError, ValueError):
        return None
    return None if moment is None or moment.tzinfo is None else moment


def is_later(layout: Layout, bundle_id: str, due: dt.datetime) -> bool | None:
    """Whether a bundle was made after a day that was due at that moment; None where it does not say when."""
    made_at = made_at_of(layout, bundle_id)
    return None if made_at is None else made_at > due


def require_model(asked: str) -> None:
    """BundleError unless that is a way to name the model of a day."""
    if asked not in (STABLE, AS_OF) and not is_bundle_id(asked):
        raise BundleError(
            f"{asked!r} names no model", remedy="give stable, as-of, or a bundle's id: profile-assets models list"
        )


def _as_of(layout: Layout, due: dt.datetime) -> Path:
    pointer = registry.stable_at(layout, due)
    if pointer is not None:
        registry.require_bundle(layout, pointer.bundle_id)
        return layout.bundle(pointer.bundle_id)
    first = next((one for one in registry.history(layout) if one.pointer == STABLE and one.bundle_id), None)
    if first is None:
        raise BundleError(f"{layout.name} has no stable bundle yet", remedy="train one: profile-assets train")
    raise BundleError(
        f"no bundle was stable at {due.isoformat(timespec='minutes')}, when the day was due: the first one, "
        f"{first.bundle_id}, became stable at {first.since[:16]}",
        remedy=f"to score the day with a model of later, say so: --model {first.bundle_id}, or --model stable",
    )


def _named(layout: Layout, bundle_id: str) -> Path:
    require_model(bundle_id)
    registry.require_bundle(layout, bundle_id)
    return layout.bundle(bundle_id)
