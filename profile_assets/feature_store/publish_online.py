"""The lookups of published days: a day brought online, one taken out of them again, a rollback; and what records say.

The table leads. A day that is older than what is live stays out of the lookups, which its record says; a day that is
taken out gives its place to what the table has before it. Every step can be repeated after a death.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import CorruptError, DiskError, ProfileAssetsError, TransientError
from profile_assets.feature_store.buckets import ROW_SCHEMA
from profile_assets.feature_store.online import Brought, bring, spot_check, step_back, take_back, to_step_back
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.feature_store.versions import OnlineStore, Pace, Switch, version_of
from profile_assets.storage.atomic import locked
from profile_assets.storage.days import day_end
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.parts import part_of
from profile_assets.storage.published import (
    OFFLINE,
    ONLINE,
    PublishRecord,
    State,
    footer_record,
    published_days,
    read_record,
    tell,
    write_record,
)
from profile_assets.storage.withdrawals import withdrawal_of

ROLLED_BACK = "rolled back to "


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A day as readers of the table see it, its file proven whole by whoever found it."""

    record: PublishRecord
    part: Path


@dataclass(frozen=True, kw_only=True)
class Lookups:
    """A store, and how days are brought to it. `clock` gives aware moments."""

    store: OnlineStore
    settings: OnlineSettings
    time_zone: str
    clock: Callable[[], dt.datetime]

    @property
    def keep_s(self) -> int:
        """How long a replaced version is kept, in seconds."""
        return round(self.settings.keep_hours * 3600)


@dataclass(frozen=True, kw_only=True)
class BroughtOnline:
    """The record as it is afterwards; `brought` is None for a day that is older than what the lookups serve."""

    record: PublishRecord
    brought: Brought | None = None
    differing: tuple[str, ...] = ()


def publish_online(layout: Layout, seen: Seen, lookups: Lookups) -> BroughtOnline:
    """Bring the day online, unless a newer one is live or to be so; done, older or pending, the record says it."""
    day, store = seen.record.day, lookups.store
    try:
        newer = _newer(layout, store, day)
        if newer is not None:
            note = f"not brought online: {newer} is newer"
            return BroughtOnline(record=tell(layout, seen.record, ONLINE, "older", lookups.clock(), note))
        expires_at = day_end(day, lookups.time_zone) + dt.timedelta(hours=lookups.settings.expires_hours)
        rows, pace = _rows(seen.part), Pace(lookups.settings.rows_per_s)
        brought = bring(store, version_of(seen.record, expires_at), rows, pace=pace, keep_s=lookups.keep_s)
        differing = spot_check(store, brought.version, rows) if brought.is_live else ()
    except ProfileAssetsError as error:
        record = tell(layout, seen.record, ONLINE, "pending", lookups.clock(), "")
        if not isinstance(error, TransientError | DiskError):
            raise
        raise still_pending(record, "online", error) from error
    state: State = "done" if brought.is_live else "older"
    note = brought.version.id if brought.is_live else "not live: a newer day was quicker"
    record = tell(layout, seen.record, ONLINE, state, lookups.clock(), note)
    return BroughtOnline(record=record, brought=brought, differing=differing)


def still_pending(record: PublishRecord, where: str, error: ProfileAssetsError) -> ProfileAssetsError:
    """The error that kept a published day from another target, with what is done and how the rest is completed."""
    return type(error)(
        f"{record.day} is published in the table ({record.rows} users); {where} it is pending: {error.what}",
        remedy=f"{error.remedy}; `profile-assets publish {record.day}` completes it",
    )


def take_out(layout: Layout, lookups: Lookups, day: dt.date) -> None:
    """Take a withdrawn day out of the lookups, and bring them what the table has before it unless a newer day is live.

    What the store kept of the day before may be older than what the table has of it.
    """
    take_back(lookups.store, day)
    before = _newest_before(layout, day)
    live = lookups.store.live()
    if before is None or (live is not None and live.day > before):
        return
    with locked(layout.day_lock("publish", before), what=f"the publication of {before}"):
        part = part_of(layout, before)
        if part is not None:
            publish_online(layout, Seen(record=roll_forward(layout, footer_record(part, before)), part=part), lookups)


def rollback(layout: Layout, store: OnlineStore, settings: OnlineSettings, *, now: dt.datetime) -> Switch:
    """Make the version before the live one live again, and say so in the record of the day that is taken back.

    The record comes first: where this dies, it never says `done` of a day that is not live.
    """
    live, older = to_step_back(store)
    with locked(layout.day_lock("publish", live.day), what=f"the publication of {live.day}"):
        with _said_before(layout, live.day, now, f"{ROLLED_BACK}{older.day}"):
            step_back(store, live, older)
        store.retire(live, round(settings.keep_hours * 3600))
    return Switch(before=live, after=older)


def roll_forward(layout: Layout, told: PublishRecord) -> PublishRecord:
    """Make the record say what the file says; a record that agrees keeps what it knows of other targets."""
    try:
        known = read_record(layout, told.day)
    except CorruptError:
        known = None
    if known is not None and (known.sources, known.targets.get(OFFLINE)) == (told.sources, told.targets[OFFLINE]):
        return known
    write_record(layout, told)
    return told


def _newer(layout: Layout, store: OnlineStore, day: dt.date) -> dt.date | None:
    """A newer day that keeps this one out: the live one; where nothing is live, the newest one of the table."""
    live = store.live()
    newest = max(published_days(layout)) if live is None else live.day
    return newest if newest > day else None


def _newest_before(layout: Layout, day: dt.date) -> dt.date | None:
    """The newest day of the table before this one, but for days that are being withdrawn or were rolled back."""
    for before in reversed(published_days(layout)):
        record = read_record(layout, before)
        target = None if record is None else record.targets.get(ONLINE)
        is_back = target is not None and target.state == "pending" and target.note.startswith(ROLLED_BACK)
        if before < day and not is_back and withdrawal_of(layout, record) is None:
            return before
    return None


@contextlib.contextmanager
def _said_before(layout: Layout, day: dt.date, now: dt.datetime, note: str) -> Iterator[None]:
    """Call the lookups of a day pending while they are taken back; where that comes to nothing, it is as it was."""
    record = read_record(layout, day)
    if record is not None:
        tell(layout, record, ONLINE, "pending", now, note)
    try:
        yield
    except ProfileAssetsError:
        if record is not None:
            write_record(layout, record)
        raise


def _rows(part: Path) -> Callable[[], Iterable[pa.RecordBatch]]:
    """The columns of the day that go online, from the start each time."""
    return lambda: (batch.cast(ROW_SCHEMA) for batch in iter_batches(part, columns=ROW_SCHEMA.names))
