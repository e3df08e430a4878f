"""Taking a published day back: readers then see the days before, and nothing of that one.

First the withdrawal is written down, then the day's file goes, then it is taken from the other targets; the publish
record says what is done. No other target holds the first up: one that cannot be reached is pending. A withdrawal that
died on the way is completed by whatever publishes or withdraws the day next.
The data that was withdrawn is not published again by a rerun, unless the withdrawal is undone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TypeAlias

from profile_assets.errors import CorruptError, DataError, GateError, ProfileAssetsError
from profile_assets.feature_store.offline import open_offline
from profile_assets.storage.atomic import locked
from profile_assets.storage.days import as_utc
from profile_assets.storage.layout import RAW_USERS, Layout
from profile_assets.storage.published import (
    OFFLINE,
    PublishRecord,
    TargetState,
    read_part_record,
    read_record,
    write_record,
)
from profile_assets.storage.remote import remote_of
from profile_assets.storage.withdrawals import Withdrawal, read_withdrawal, withdrawal_of, write_withdrawal

TakeBack = Callable[[dt.date], object]
"""Takes a day from a target. May be called again for a day that it has been called for."""

Others: TypeAlias = Mapping[str, TakeBack]
"""The targets beside the table, by the name that records have for them."""


def withdraw(
    layout: Layout, day: dt.date, *, why: str, by: str, now: dt.datetime, others: Others = MappingProxyType({})
) -> Withdrawal:
    """Take a published day back, from the table first, then from `others`; one that is half done is completed.

    DataError where it is not published or no reason is given. Where one of `others` fails: its error, and the record
    says pending.
    """
    if not why.strip():
        raise DataError(f"{day} is not withdrawn: no reason was given", remedy='say why: --why "..."')
    with _alone(layout, day):
        completed = complete_withdrawal(layout, day, others=others)
        published = _published(layout, day)
        if published is None and completed is not None:
            return completed
        if published is None:
            raise DataError(f"{day} is not published", remedy="see `profile-assets show` for the days that are")
        made = Withdrawal(
            day=day,
            why=why.strip(),
            by=by,
            at=as_utc(now),
            published_at=published.targets[OFFLINE].at,
            sources=published.sources,
            bundle_id=published.bundle_id,
        )
        write_withdrawal(layout, made)
        complete_withdrawal(layout, day, others=others)
        return made


def undo_withdrawal(layout: Layout, day: dt.date, *, others: Others = MappingProxyType({})) -> Withdrawal:
    """Let the withdrawn data be published again; nothing is published by it. DataError where nothing is withdrawn."""
    with _alone(layout, day):
        complete_withdrawal(layout, day, others=others)
        found = read_withdrawal(layout, day)
        if found is None or found.is_undone:
            raise DataError(f"{day} is not withdrawn", remedy="see `profile-assets show` for the days")
        undone = dataclasses.replace(found, is_undone=True)
        write_withdrawal(layout, undone)
        return undone


def complete_withdrawal(layout: Layout, day: dt.date, *, others: Others = MappingProxyType({})) -> Withdrawal | None:
    """Finish a withdrawal that was written down, which is given; None where nothing was left to do. Holds no lock."""
    record = _readable_record(layout, day)
    published = _published(layout, day)
    withdrawal = withdrawal_of(layout, published or record)
    if withdrawal is None:
        return None
    # The record knows of the other targets; where it speaks of another publication, the file is the truth.
    told = next(one for one in (record, published) if one is not None and withdrawal.names(one))
    if all(target.state == "withdrawn" for target in told.targets.values()):
        return _taken_here_too(layout, day, withdrawal, others)
    open_offline(layout).remove(day)
    taken = TargetState(state="withdrawn", at=withdrawal.published_at)
    pending = TargetState(state="pending", at=withdrawal.at, note="to be taken out")
    after = _told(layout, told, {OFFLINE: taken, **dict.fromkeys(others, pending)})
    failed: list[ProfileAssetsError] = []
    for target, take_back in others.items():
        try:
            take_back(day)
        except ProfileAssetsError as error:
            failed.append(_pending(day, target, error))
        else:
            after = _told(layout, after, {target: taken})
    if failed:
        raise failed[0]
    return withdrawal if after.targets != told.targets else None


def _taken_here_too(layout: Layout, day: dt.date, withdrawal: Withdrawal, others: Others) -> Withdrawal | None:
    """With a profile on S3, another machine may have withdrawn the day, and lookups on this disk have it still."""
    if remote_of(layout.publish_record(day)) is None or not others:
        return None
    for take_back in others.values():
        take_back(day)
    return withdrawal


def _told(layout: Layout, record: PublishRecord, changed: Mapping[str, TargetState]) -> PublishRecord:
    """The record with these targets, written where it is another one."""
    after = dataclasses.replace(record, targets={**record.targets, **changed})
    if after.targets != record.targets:
        write_record(layout, after)
    return after


def _pending(day: dt.date, target: str, error: ProfileAssetsError) -> ProfileAssetsError:
    return type(error)(
        f"{day} is withdrawn from the table; {target} is pending: {error.what}",
        remedy=f'{error.remedy}; `profile-assets withdraw {day} --why "..."` again completes it',
    )


def require_not_withdrawn(layout: Layout, day: dt.date, sources: Mapping[str, str], bundle_id: str) -> None:
    """GateError where the same users, scored by the same bundle, were published and taken back before.

    Whatever else changed on the way from the one to the other, nothing was mended.
    """
    found = read_withdrawal(layout, day)
    if found is None or found.is_undone or found.bundle_id not in (None, bundle_id):
        return
    if found.sources.get(RAW_USERS) == sources[RAW_USERS]:
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
