"""The registry: which bundle scores. A pointer is a small JSON file that is replaced in one rename. Knows no torch.

    stable    scores            canary, shadow    are tried beside it            previous    was stable before

Every change is made under the registry's lock: the pointer first, which is the truth and says everything that the
log does, then the log. What a crash kept from the log stands there after the next change, and for readers at once.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from profile_assets.errors import BundleError
from profile_assets.models import registry_log
from profile_assets.models.bundle_files import SEAL
from profile_assets.models.pointers import Pointer as Pointer
from profile_assets.models.pointers import change_in, is_bundle_id, write_pointer
from profile_assets.models.pointers import read_pointer as read_pointer
from profile_assets.models.registry_log import Change as Change
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.pulling import pull_registry

STABLE, CANARY, SHADOW, PREVIOUS = "stable", "canary", "shadow", "previous"
POINTERS = (STABLE, CANARY, SHADOW, PREVIOUS)
_UNCHANGED = "nothing was changed"


def stable_bundle(layout: Layout) -> Path:
    """The folder of the bundle that scores."""
    pointer = read_pointer(layout, STABLE)
    if pointer is None and (known := last_stable(layout)) is not None:
        raise BundleError(
            f"{layout.pointer(STABLE)} is gone; the log says that {known} was stable",
            remedy=f'set it again: `profile-assets models promote {known} --why "..."`',
        )
    if pointer is None:
        raise BundleError(f"{layout.name} has no stable bundle yet", remedy="train one: profile-assets train")
    require_bundle(layout, pointer.bundle_id)
    return layout.bundle(pointer.bundle_id)


def last_stable(layout: Layout) -> str | None:
    """What is stable; by the log where the pointer is gone. None only where nothing ever was."""
    pointer = read_pointer(layout, STABLE)
    if pointer is not None:
        return pointer.bundle_id
    known = [change.bundle_id for change in history(layout) if change.pointer == STABLE]
    return known[-1] if known else None


def set_first_stable(
    layout: Layout, bundle_id: str, why: str, *, by: str = "training", now: dt.datetime | None = None
) -> bool:
    """Make a bundle the stable one if there never was one. Gives whether it did."""
    require_bundle(layout, bundle_id)
    with _changing(layout):
        if last_stable(layout) is not None:
            return False
        _move(layout, STABLE, bundle_id, by=by, why=why, action="first", now=now)
    return True


def set_pointer(
    layout: Layout,
    name: str,
    bundle_id: str | None,
    *,
    by: str,
    why: str,
    action: str = "set",
    evidence: Mapping[str, Any] | None = None,
    expected: str | None = None,
    now: dt.datetime | None = None,
) -> Change | None:
    """Point `name` to a bundle, or to nothing; None where it does already. Moving stable sets `previous` as well.

    With `expected`, BundleError unless stable is that bundle still: what a gate found was found against it.
    """
    _require_reason(by, why)
    _require_name(name)
    if bundle_id is not None:
        require_bundle(layout, bundle_id)
    elif name == STABLE:
        raise BundleError("stable cannot point to nothing", remedy="promote another bundle, or roll back")
    with _changing(layout):
        before, stable = _bundle_of(layout, name), last_stable(layout)
        if expected is not None and stable != expected:
            raise BundleError(
                f"stable has become {stable}, and what was found was found against {expected}",
                remedy=f"{_UNCHANGED}; try again",
            )
        if before == bundle_id:
            return None
        if name == STABLE and stable not in (None, bundle_id):
            _move(layout, PREVIOUS, stable, by=by, why=f"{bundle_id} became stable", action=action, now=now)
        return _move(layout, name, bundle_id, by=by, why=why, action=action, evidence=evidence, now=now)


def rollback(layout: Layout, *, by: str, why: str, now: dt.datetime | None = None) -> Change:
    """Make `previous` stable, and what was stable `previous`: rolling back twice is where one began."""
    _require_reason(by, why)
    with _changing(layout):
        stable, previous = _bundle_of(layout, STABLE), _bundle_of(layout, PREVIOUS)
        if stable is None or previous is None or stable == previous:
            raise BundleError(
                f"{layout.name} has nothing to roll back to: no other bundle was stable before {stable}",
                remedy=f"{_UNCHANGED}; promote another bundle: profile-assets models list",
            )
        require_bundle(layout, previous)
        _move(layout, PREVIOUS, stable, by=by, why=f"rolled back to {previous}", action="rollback", now=now)
        return _move(layout, STABLE, previous, by=by, why=why, action="rollback", now=now)


def history(layout: Layout) -> tuple[Change, ...]:
    """Every change of every pointer, oldest first, those included that a crash kept from the log."""
    known = registry_log.read_log(layout.registry_log)
    return (*known, *_unlogged(layout, known))


def stable_at(layout: Layout, moment: dt.datetime) -> Pointer | None:
    """What was stable at an aware moment; None where nothing was yet."""
    found: Pointer | None = None
    for change in history(layout):
        if change.pointer == STABLE and change.bundle_id is not None and change.at <= moment:
            found = Pointer(bundle_id=change.bundle_id, since=change.since, by=change.by, why=change.why)
    return found


def bundle_ids(layout: Layout) -> list[str]:
    """The bundles that are there, in no order that means anything."""
    return sorted(path.parent.name for path in layout.models.glob(f"b-*/{SEAL}") if is_bundle_id(path.parent.name))


def require_bundle(layout: Layout, bundle_id: str) -> None:
    """BundleError unless a finished bundle of that id is there. What is in it is not looked at."""
    if not is_bundle_id(bundle_id):
        raise BundleError(f"{bundle_id!r} is no bundle id", remedy="give an id such as b-0123456789abcdef")
    if not (layout.bundle(bundle_id) / SEAL).is_file():
        raise BundleError(
            f"the bundle {bundle_id} is not in {layout.models}",
            remedy="restore it, promote another, or train a new one",
        )


@contextlib.contextmanager
def _changing(layout: Layout) -> Iterator[None]:
    """Be the only one who changes the registry, its log complete."""
    with atomic.locked(layout.shared_lock("registry"), what=f"the registry of {layout.name}"):
        pull_registry(layout)
        for change in _unlogged(layout, registry_log.read_log(layout.registry_log)):
            registry_log.append(layout.registry_log, change, staging=layout.scratch("records"))
        yield


def _move(
    layout: Layout,
    name: str,
    bundle_id: str | None,
    *,
    by: str,
    why: str,
    action: str,
    now: dt.datetime | None,
    evidence: Mapping[str, Any] | None = None,
) -> Change:
    """Replace the pointer, then log it. A clock that was set back does not put a change before the one it follows."""
    moment = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
    logged = registry_log.read_log(layout.registry_log)
    change = Change(
        pointer=name,
        bundle_id=bundle_id,
        before=last_stable(layout) if name == STABLE else _bundle_of(layout, name),
        since=max([moment, *(one.at for one in logged[-1:])]).isoformat(),
        by=by,
        why=why,
        action=action,
        evidence=evidence or {},
    )
    write_pointer(layout, change)
    registry_log.append(layout.registry_log, change, staging=layout.scratch("records"))
    return change


def _unlogged(layout: Layout, known: tuple[Change, ...]) -> list[Change]:
    """What pointers say that the log does not, oldest first."""
    last = {change.pointer: change for change in known}
    found = []
    for name in POINTERS:
        change = change_in(layout, name)
        if change is not None:
            logged = last.get(name)
            if logged is None or (logged.bundle_id, logged.since) != (change.bundle_id, change.since):
                found.append(change)
    return sorted(found, key=lambda change: change.at)


def _bundle_of(layout: Layout, name: str) -> str | None:
    pointer = read_pointer(layout, name)
    return None if pointer is None else pointer.bundle_id


def _require_name(name: str) -> None:
    if name not in POINTERS:
        raise BundleError(f"{name!r} is no pointer of the registry", remedy=f"choose one of {', '.join(POINTERS)}")


def _require_reason(by: str, why: str) -> None:
    if not by.strip() or not why.strip():
        raise BundleError("a pointer is moved by somebody, for a reason", remedy='say why: --why "..."')
