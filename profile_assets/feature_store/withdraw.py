"""Taking a published day back: readers then see the days before, and nothing of that one.

First the withdrawal is written down, then the day is taken from the other targets, then its file goes, then the
publish record says so. A withdrawal that died on the way is completed by whatever publishes or withdraws the day next.
The data that was withdrawn is not published again by a rerun, unless the withdrawal is undone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from profile_assets.errors import CorruptError, DataError, GateError
from profile_assets.feature_store.offline import open_offline
from profile_assets.storage.atomic import locked
from profile_assets.storage.days import as_utc
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import (
    OFFLINE,
    ONLINE,
    PublishRecord,
    TargetState,
    read_part_record,
    read_record,
    write_record,
)
from profile_assets.storage.withdrawals import Withdrawal, read_withdrawal, withdrawal_of, write_withdrawal

TakeBack = Callable[[dt.date], object]
"""Takes a day from the lookups. May be called again for a day that it has been called for."""


def withdraw(
    layout: Layout, day: dt.date, *, why: str, by: str, now: dt.datetime, others: Sequence[TakeBack] = ()
) -> Withdrawal:
    """Take a published day back, from `others` first. DataError where it is not published or no reason is given."""
    if not why.strip():
        raise DataError(f"{day} is not withdrawn: no reason was given", remedy='say why: --why "..."')
    with _alone(layout, day):
        complete_withdrawal(layout, day, others=others)
        published = _published(layout, day)
        if published is None:
            raise DataError(f"{day} is not published", remedy="see `profile-assets show` for the days that are")
        made = Withdrawal(
            day=day,
            why=why.strip(),
            by=by,
            at=as_utc(now),
            published_at=published.targets[OFFLINE].at,
            sources=published.sources,
        )
        write_withdrawal(layout, made)
        complete_withdrawal(layout, day, others=others)
        return made


def undo_withdrawal(layout: Layout, day: dt.date) -> Withdrawal:
    """Let the withdrawn data be published again; nothing is published by it. DataError where nothing is withdrawn."""
    with _alone(layout, day):
        complete_withdrawal(layout, day)
        found = read_withdrawal(layout, day)
        if found is None or found.is_undone:
            raise DataError(f"{day} is not withdrawn", remedy="see `profile-assets show` for the days")
        undone = dataclasses.replace(found, is_undone=True)
        write_withdrawal(layout, undone)
        return undone


def complete_withdrawal(layout: Layout, day: dt.date, *, others: Sequence[TakeBack] = ()) -> None:
    """Finish a withdrawal that was written down; nothing happens where none is pending. Holds no lock itself."""
    record = _readable_record(layout, day)
    published = _published(layout, day)
    withdrawal = withdrawal_of(layout, published or record)
    if withdrawal is None:
        return
    # The record knows of the other targets; where it speaks of another publication, the file is the truth.
    told = record if record is not None and withdrawal.names(record) else published
    if told is not None and all(target.state == "withdrawn" for target in told.targets.values()):
        return
    for take_back in others:
        take_back(day)
    open_offline(layout).remove(day)
    taken = TargetState(state="withdrawn", at=withdrawal.published_at)
    if told is not None:
        names = [OFFLINE, *([ONLINE] if others and ONLINE in told.targets else [])]
        targets = {**told.targets, **dict.fromkeys(names, taken)}
        if targets != told.targets:
            write_record(layout, dataclasses.replace(told, targets=targets))


def require_not_withdrawn(layout: Layout, day: dt.date, sources: Mapping[str, str]) -> None:
    """GateError where exactly this data was published and taken back before."""
    found = read_withdrawal(layout, day)
    if found is not None and not found.is_undone and dict(found.sources) == dict(sources):
        raise GateError(
            f"this very data of {day} was withdrawn by {found.by}: {found.why}",
            remedy=f"mend the source and run {day} again, or `profile-assets withdraw {day} --undo` if it was right",
        )


def _alone(layout: Layout, day: dt.date) -> AbstractContextManager[None]:
    return locked(layout.day_lock("publish", day), what=f"the publication of {day}")


def _published(layout: Layout, day: dt.date) -> PublishRecord | None:
    """What the published file says; its record stands in for a file that is damaged or gone: both can be withdrawn."""
    try:
        published = read_part_record(layout, day)
    except CorruptError:
        published = None
    if published is not None:
        return published
    record = read_record(layout, day)
    return record if record is not None and record.is_offline_done else None


def _readable_record(layout: Layout, day: dt.date) -> PublishRecord | None:
    """The record; None for one that is damaged, which the publication writes again from the file."""
    try:
        return read_record(layout, day)
    except CorruptError:
        return None
