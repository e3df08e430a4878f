"""Where each day stands, as its records say: quick enough for a look, and never stopped by one damaged record.

Whether the data is what the records say is `verify`'s to find out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from profile_assets.errors import ProfileAssetsError
from profile_assets.quality.standing import Standing
from profile_assets.storage.holders import Holder, holder
from profile_assets.storage.layout import ROWS, USER_SCORES, Layout
from profile_assets.storage.pruned import pruned_at
from profile_assets.storage.published import (
    BUCKET,
    OFFLINE,
    ONLINE,
    PublishRecord,
    TargetState,
    read_record,
)
from profile_assets.storage.stages import current
from profile_assets.storage.verdicts import Verdict, read_verdict
from profile_assets.storage.withdrawals import withdrawn_days
from profile_assets.upkeep.rerun import rerun_of

LOCKS = (*ROWS, "publish", "verdict")

Presence = Literal["there", "staged", "pruned", "damaged", "gone", "none"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StageState:
    """One stage of a day: `staged` where data waits for a mended check or a rerun, `gone` where it was published and is
    not there, though nobody pruned it; rows as far as they are known.
    """

    presence: Presence
    rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class DayState:
    """One day. `verdict` is "passed", "stopped", "damaged" or "none"; `stopped_by` names the checks.

    `offline`, `online` and `copy` (on S3) are states of the publish record, "damaged" or "none"; `published_at` in
    UTC; `online` is "lost" where the store of lookups does not have what the record says, "unknown" where it cannot be
    asked. `withdrawn` is the reason; `not_counted` is why freshness does not count a day of the table. `is_rerun`: the
    verdict is that of a later run, which published nothing. `locks` maps what is locked to its holder.
    """

    day: dt.date
    stages: Mapping[str, StageState]
    bundle_id: str | None
    verdict: str
    stopped_by: tuple[str, ...]
    released: tuple[str, ...]
    offline: str
    online: str
    online_note: str
    copy: str
    published_at: dt.datetime | None
    withdrawn: str | None
    not_counted: str | None
    is_rerun: bool
    has_record: bool
    locks: Mapping[str, Holder]

    @property
    def pending(self) -> tuple[str, ...]:
        """The targets that still lack the day."""
        states = {OFFLINE: self.offline, ONLINE: self.online, BUCKET: self.copy}
        return tuple(name for name, state in states.items() if state == "pending")

    def to_json(self) -> dict[str, Any]:
        stages = {name: {"state": one.presence, "rows": one.rows} for name, one in self.stages.items()}
        locks = {what: {"pid": one.pid, "is_alive": one.is_alive} for what, one in self.locks.items()}
        return {
            "day": self.day.isoformat(),
            "stages": stages,
            "bundle_id": self.bundle_id,
            "verdict": self.verdict,
            "stopped_by": list(self.stopped_by),
            "released": list(self.released),
            "offline": self.offline,
            "online": self.online,
            "online_note": self.online_note,
            BUCKET: self.copy,
            "published_at": None if self.published_at is None else self.published_at.isoformat(),
            "withdrawn": self.withdrawn,
            "not_counted": self.not_counted,
            "is_rerun": self.is_rerun,
            "has_record": self.has_record,
            "pending": list(self.pending),
            "locks": locks,
        }


def day_states(layout: Layout, days: Iterable[dt.date], stands: Standing) -> list[DayState]:
    """The states of some days, in their order; `stands` is how those of the table stand."""
    withdrawn = _readable(lambda: withdrawn_days(layout)) or {}
    return [_day_state(layout, day, stands, withdrawn=withdrawn.get(day)) for day in days]


def _day_state(layout: Layout, day: dt.date, stands: Standing, *, withdrawn: str | None) -> DayState:
    is_seen = day in stands.days_in_table
    record, is_record_damaged = _read(lambda: read_record(layout, day))
    verdict, is_verdict_damaged = _read(lambda: read_verdict(layout, day))
    scores = _readable(lambda: current(layout, USER_SCORES, day))
    stopping = [] if verdict is None else [one.check for stage in verdict.stages.values() for one in stage.stopping]
    online, copy = (None if record is None else record.targets.get(target) for target in (ONLINE, BUCKET))
    return DayState(
        day=day,
        stages={stage: _stage_state(layout, stage, day, is_published=is_seen) for stage in ROWS},
        bundle_id=record.bundle_id if record is not None else None if scores is None else scores.facts.get("bundle_id"),
        verdict="damaged" if is_verdict_damaged else _verdict(verdict, stopping),
        stopped_by=tuple(stopping),
        released=() if verdict is None else tuple(_released(verdict)),
        offline="damaged" if is_record_damaged else _offline(record, is_seen=is_seen),
        online="damaged" if is_record_damaged else _online(stands, day, online),
        online_note="" if online is None else online.note,
        copy="damaged" if is_record_damaged else "none" if copy is None else copy.state,
        published_at=None if record is None or OFFLINE not in record.targets else record.published_at,
        withdrawn=withdrawn,
        not_counted=stands.unproven.get(day),
        is_rerun=is_seen and _readable(lambda: rerun_of(layout, day)) is not None,
        has_record=record is not None or is_record_damaged,
        locks={what: found for what in LOCKS if (found := holder(layout.day_lock(what, day))) is not None},
    )


def _online(stands: Standing, day: dt.date, target: TargetState | None) -> str:
    """What the record says, unless the store of lookups knows better."""
    if target is not None and target.state == "done" and day == stands.recorded and stands.trouble:
        return "lost" if stands.is_served_known else "unknown"
    if target is None:
        return "done" if day == stands.served and day in stands.days_in_table else "none"
    return target.state


def _stage_state(layout: Layout, stage: str, day: dt.date, *, is_published: bool) -> StageState:
    manifest, is_damaged = _read(lambda: current(layout, stage, day))
    if is_damaged:
        return StageState(presence="damaged")
    if manifest is not None:
        removed, _ = _read(lambda: pruned_at(layout.stage(stage, day)))
        return StageState(presence="there" if removed is None else "pruned", rows=manifest.rows)
    is_staged = layout.staging(stage, day).exists()
    return StageState(presence="staged" if is_staged else "gone" if is_published else "none")


def _verdict(verdict: Verdict | None, stopping: list[str]) -> str:
    if verdict is None or not verdict.stages:
        return "none"
    return "stopped" if stopping else "passed"


def _released(verdict: Verdict) -> list[str]:
    stages = verdict.stages.values()
    return [one.check for stage in stages for one in stage.outcomes if stage.release(one.check) is not None]


def _offline(record: PublishRecord | None, *, is_seen: bool) -> str:
    """The table itself decides: a record may be behind it after a crash."""
    target: TargetState | None = None if record is None else record.targets.get(OFFLINE)
    if is_seen:
        return "done"
    if target is None:
        return "none"
    return "damaged" if target.state == "done" else target.state


def _read(read: Callable[[], T]) -> tuple[T | None, bool]:
    """What was read, and whether it is damaged."""
    try:
        return read(), False
    except ProfileAssetsError:
        return None, True


def _readable(read: Callable[[], T]) -> T | None:
    return _read(read)[0]
