"""Which days of the published table count: those that were published under a verdict that passed or was released.

A file in the table proves nothing by itself. A day counts when a publication wrote it, nobody took it back, and what
was judged of that very data lets it through. A rerun judges other data: until it publishes, the day stands on the
verdict that it was published under.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profile_assets.errors import CorruptError, GateError
from profile_assets.storage.layout import Layout
from profile_assets.storage.parts_there import stamp_there
from profile_assets.storage.published import (
    BUCKET,
    ONLINE,
    Live,
    PublishRecord,
    TargetState,
    published_days,
    read_part_record,
    read_record,
)
from profile_assets.storage.verdicts import read_verdict, require_passed
from profile_assets.storage.withdrawals import withdrawal_of

Stamp = tuple[int, int, int] | str


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`days` of the table that count, oldest first; `unproven` are days in the table that do not, with the reason.

    `recorded` is the newest day that is online by its record, `served` the newest one that lookups serve by their
    store; by the records where that was not asked, or could not be (`is_served_known`). `trouble`: what the store does
    not serve of what the records say, and why. `pending` are, by target, the days of the table that wait for it, each
    with the moment since which that is so and the note of the record; for the lookups, those newer than `served`.
    """

    days: tuple[dt.date, ...]
    unproven: Mapping[dt.date, str]
    recorded: dt.date | None
    served: dt.date | None
    pending: Mapping[str, Mapping[dt.date, tuple[dt.datetime, str]]]
    trouble: str = ""
    is_served_known: bool = True

    @property
    def days_in_table(self) -> frozenset[dt.date]:
        return frozenset(self.days) | frozenset(self.unproven)


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What was found of one day: why it does not count (None: it does), and how each of its targets stands."""

    objection: str | None
    targets: Mapping[str, TargetState] = field(default_factory=dict)

    def is_(self, state: str, target: str) -> bool:
        return target in self.targets and self.targets[target].state == state


def standing(layout: Layout, live: Live | None = None) -> Standing:
    """How every day of the table stands. Records that did not change since they were last looked at are not reread.

    `live` is what the store of lookups said; a record alone proves nothing of it.
    """
    looks = {day: _look(layout, day, *_stamps(layout, day)) for day in published_days(layout)}
    recorded = max((day for day, look in looks.items() if look.is_("done", ONLINE)), default=None)
    served, trouble = (recorded, "") if live is None else _served(layout, live, recorded, looks)
    waiting = {
        target: {
            day: (look.targets[target].at, look.targets[target].note)
            for day, look in looks.items()
            if look.is_("pending", target)
        }
        for target in (ONLINE, BUCKET)
    }
    of_old = max((day for day in (served, recorded) if day is not None), default=None)
    newer = {day: told for day, told in waiting[ONLINE].items() if of_old is None or day > of_old}
    return Standing(
        days=tuple(day for day, look in looks.items() if look.objection is None),
        unproven={day: look.objection for day, look in looks.items() if look.objection is not None},
        recorded=recorded,
        served=served,
        pending={**waiting, ONLINE: newer},
        trouble=trouble,
        is_served_known=live is None or live.is_known,
    )


def _served(
    layout: Layout, live: Live, recorded: dt.date | None, days: Iterable[dt.date]
) -> tuple[dt.date | None, str]:
    """The newest day that lookups serve, and what is wrong with that beside what the records say."""
    if not live.is_known:
        return recorded, live.trouble
    if live.day is None:
        is_lost = recorded is not None and not live.trouble
        return (
            None,
            f"nothing is live in {live.where}, and the records say that {recorded} is" if is_lost else live.trouble,
        )
    if is_published(layout, live):
        served: dt.date | None = live.day
    else:  # an earlier publication of that day, or one that was taken back
        served = max((day for day in days if day < live.day), default=None)
    if recorded is None or (served is not None and served >= recorded):
        return served, ""
    at = (
        ""
        if live.published_at is None
        else f" as it was published at {live.published_at.isoformat(timespec='seconds')}"
    )
    return served, f"{live.where} serves {live.day}{at}, and the records say that {recorded} is live"


def is_published(layout: Layout, live: Live) -> bool:
    """Whether what lookups serve is the day as it is published now."""
    if live.day is None:
        return False
    try:
        record = read_record(layout, live.day) or read_part_record(layout, live.day)
    except CorruptError:
        return False
    return record is not None and record.is_offline_done and record.published_at == live.published_at


def _stamps(layout: Layout, day: dt.date) -> tuple[Stamp | None, ...]:
    """What tells that a day's records are the ones seen before; each is replaced by a rename, never written over."""
    records = (layout.publish_record(day), layout.verdict(day), layout.withdrawal(day))
    part = layout.offline_part(day)
    return (*map(_stamp, (*records, part)), stamp_there(part))


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=8192)
def _look(layout: Layout, day: dt.date, *stamps: Stamp | None) -> _Look:  # noqa: ARG001 (the stamps are the key)
    try:
        footer = read_part_record(layout, day)  # a file that cannot be read is no published day, whatever is said
        if footer is None:
            return _Look(objection="is not in the table any more")
        record = read_record(layout, day) or footer
        return _Look(objection=_objection(layout, record), targets=record.targets)
    except CorruptError as error:
        return _Look(objection=error.what)


def _objection(layout: Layout, record: PublishRecord) -> str | None:
    """Why a published day does not count; None where it does."""
    withdrawal = withdrawal_of(layout, record)
    if withdrawal is not None:
        return f"was withdrawn: {withdrawal.why}"
    if not record.is_offline_done:
        return "has a publish record that does not say done"
    verdict = read_verdict(layout, record.day)
    if verdict is None:
        return "was never judged: it has no verdict"
    judged = {stage: digest for stage, digest in record.sources.items() if stage in verdict.stages}
    if judged != {stage: verdict.stages[stage].digest for stage in judged} or len(judged) < len(record.sources):
        return None if record.verdict_digest else "was published under no verdict"
    try:
        require_passed(verdict, record.sources)
    except GateError as error:
        return error.what
    return None
