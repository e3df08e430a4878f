"""The one step that makes a day visible, and the last that looks before it does: the table first, then the lookups.

What is on disk decides, not what the caller believes: every file of the three stages is verified, the recorded verdict
must have passed exactly these digests, and the sums must close. Then one commit; then the record, which names each
target as done or pending; then the online store, by one switch. Every step can be repeated: a run that dies anywhere
leaves each target at the old day or the new one, and the next run takes up what is not done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from profile_assets.errors import AccountingError, CorruptError, DataError, ProfileAssetsError, TransientError
from profile_assets.feature_store.buckets import ROW_SCHEMA
from profile_assets.feature_store.offline import OfflineStore, open_offline
from profile_assets.feature_store.online import Brought, bring, open_online, spot_check, take_back
from profile_assets.feature_store.online import rollback as switch_back
from profile_assets.feature_store.rows import audit, has_columns, stage_rows, table_schema
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.feature_store.versions import OnlineStore, Pace, Switch, version_of
from profile_assets.feature_store.withdraw import complete_withdrawal, require_not_withdrawn
from profile_assets.storage.atomic import locked
from profile_assets.storage.days import as_utc, day_end
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.published import (
    OFFLINE,
    ONLINE,
    PublishRecord,
    TargetState,
    footer_record,
    published_days,
    read_record,
    write_record,
)
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import require
from profile_assets.storage.verdicts import Verdict, read_verdict, require_passed

SOURCES = (RAW_USERS, USER_SHARDS, USER_SCORES)

Manifests = Mapping[str, Manifest]


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a publication came to. `part` is the file of the table that holds the day.

    `brought` is what became of the lookups, None without them and for a day that is older than what they serve;
    `differing` are sampled users whose lookup, made afterwards, gave another value than the table.
    """

    record: PublishRecord
    part: Path
    brought: Brought | None = None
    differing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """The day as readers of the table see it, proven whole."""

    record: PublishRecord
    part: Path


def publish(
    layout: Layout,
    day: dt.date,
    *,
    time_zone: str,
    clock: Callable[[], dt.datetime],
    export: ExportSettings | None = None,
    online: OnlineStore | None = None,
) -> Published:
    """Publish the day's scores to every target; what is done already is left as it is.

    `online` is used in place of the store that `export` names. Raises GateError unless the verdict passed what is on
    disk, AccountingError where users were lost or doubled on the way. Where the online store cannot be reached, the
    table stays published, the record says `pending`, and a TransientError says how to complete it.
    """
    export = export or ExportSettings()
    table = open_offline(layout, export.offline)
    if online is None and export.online is not None:
        online = open_online(layout, export.online)
    with _undisturbed(layout, day):
        complete_withdrawal(layout, day, others=[] if online is None else [partial(take_back, online)])
        seen = _publish_table(layout, table, day, export, time_zone=time_zone, now=as_utc(clock()))
        if export.online is None or online is None:
            return Published(record=seen.record, part=seen.part)
        return _publish_online(layout, seen, online, export.online, time_zone=time_zone, clock=clock)


def rollback(layout: Layout, online: OnlineStore, settings: OnlineSettings, *, now: dt.datetime) -> Switch:
    """Make the version before the live one live again, and say so in the record of the day that was taken back."""
    switch = switch_back(online, keep_s=_keep_s(settings))
    if switch.before is not None and switch.after is not None:
        with locked(layout.day_lock("publish", switch.before.day), what=f"the publication of {switch.before.day}"):
            record = read_record(layout, switch.before.day)
            if record is not None:
                _write_online(layout, record, "pending", now, f"rolled back to {switch.after.day}")
    return switch


@contextlib.contextmanager
def _undisturbed(layout: Layout, day: dt.date) -> Iterator[None]:
    """Be the only one that publishes the day, while nobody rewrites what is published."""
    with contextlib.ExitStack() as held:
        held.enter_context(locked(layout.day_lock("publish", day), what=f"the publication of {day}"))
        for stage in reversed(SOURCES):
            held.enter_context(locked(layout.day_lock(stage, day), what=f"{stage} of {day}", is_shared=True))
        yield


def _publish_table(
    layout: Layout, table: OfflineStore, day: dt.date, export: ExportSettings, *, time_zone: str, now: dt.datetime
) -> _Seen:
    """The day in the table, as it is or new, and its record."""
    seen = _what_readers_see(table, day)
    if seen is not None:
        _roll_forward(layout, seen.record)
    manifests = {stage: require(layout, stage, day) for stage in SOURCES}
    sources = {stage: manifest.digest for stage, manifest in manifests.items()}
    verdict = read_verdict(layout, day) or Verdict(day=day, stages={})
    require_passed(verdict, sources)
    require_not_withdrawn(layout, day, sources)
    _require_closed_sums(manifests, day)
    schema = table_schema(layout, day, manifests[USER_SHARDS], export.columns)
    if seen is not None and seen.record.sources == sources and has_columns(seen.part, schema):
        return _Seen(record=read_record(layout, day) or seen.record, part=seen.part)
    record = _record(manifests, sources, verdict, now)
    scores, shards = manifests[USER_SCORES], manifests[USER_SHARDS]
    table.replace(stage_rows(layout, scores, shards, record, schema=schema, time_zone=time_zone), record)
    if export.online is not None:
        record = _with_online(record, "pending", now, "")
    write_record(layout, record)
    return _Seen(record=record, part=_require_part(table, day))


def _what_readers_see(table: OfflineStore, day: dt.date) -> _Seen | None:
    """The published file and its record, once it has proven whole; None for a damaged one, which is replaced."""
    try:
        part = table.part(day)
        if part is None:
            return None
        record = footer_record(part, day)
        audit(part, record)
    except (CorruptError, DataError):
        return None
    return _Seen(record=record, part=part)


def _roll_forward(layout: Layout, told: PublishRecord) -> None:
    """Make the record say what the file says; a record that agrees keeps what it knows of other targets."""
    try:
        known = read_record(layout, told.day)
    except CorruptError:
        known = None
    facts = (told.sources, told.targets[OFFLINE])
    if known is None or (known.sources, known.targets.get(OFFLINE)) != facts:
        write_record(layout, told)


def _require_part(table: OfflineStore, day: dt.date) -> Path:
    part = table.part(day)
    if part is None:
        raise CorruptError(f"{table.path} lost {day} just after it was published", remedy=f"publish {day} again")
    return part


def _publish_online(
    layout: Layout,
    seen: _Seen,
    online: OnlineStore,
    settings: OnlineSettings,
    *,
    time_zone: str,
    clock: Callable[[], dt.datetime],
) -> Published:
    """Bring the day online, unless a newer one is published or live; done or pending, the record says it."""
    day = seen.record.day
    newest = max(published_days(layout))
    try:
        live = online.live()
        if day < newest or (live is not None and day < live.day):
            note = f"not brought online: {max(newest, live.day if live else newest)} is newer"
            return Published(record=_write_online(layout, seen.record, "done", clock(), note), part=seen.part)
        expires_at = day_end(day, time_zone) + dt.timedelta(hours=settings.expires_hours)
        rows = _rows(seen.part)
        pace, keep_s = Pace(settings.rows_per_s), _keep_s(settings)
        brought = bring(online, version_of(seen.record, expires_at), rows, pace=pace, keep_s=keep_s)
        differing = spot_check(online, brought.version, rows) if brought.is_live else ()
    except ProfileAssetsError as error:
        record = _write_online(layout, seen.record, "pending", clock(), "")
        if not isinstance(error, TransientError):
            raise
        raise type(error)(
            f"{day} is published in the table ({record.rows} users); online it is pending: {error.what}",
            remedy=f"{error.remedy}; `profile-assets publish {day}` completes it",
        ) from error
    note = brought.version.id if brought.is_live else "not live: a newer day was quicker"
    record = _write_online(layout, seen.record, "done", clock(), note)
    return Published(record=record, part=seen.part, brought=brought, differing=differing)


def _rows(part: Path) -> Callable[[], Iterable[pa.RecordBatch]]:
    """The columns of the day that go online, from the start each time."""
    return lambda: (batch.cast(ROW_SCHEMA) for batch in iter_batches(part, columns=ROW_SCHEMA.names))


def _keep_s(settings: OnlineSettings) -> int:
    return round(settings.keep_hours * 3600)


def _with_online(record: PublishRecord, state: Any, at: dt.datetime, note: str) -> PublishRecord:
    told = TargetState(state=state, at=as_utc(at), note=note)
    return dataclasses.replace(record, targets={**record.targets, ONLINE: told})


def _write_online(layout: Layout, record: PublishRecord, state: Any, at: dt.datetime, note: str) -> PublishRecord:
    """Record the state of the lookups; one that says the same already keeps its moment."""
    known = record.targets.get(ONLINE)
    if known is None or (known.state, known.note) != (state, note):
        record = _with_online(record, state, at, note)
        write_record(layout, record)
    return record


def _require_closed_sums(manifests: Manifests, day: dt.date) -> None:
    broken = [*_of_another_day(manifests, day), *_broken_links(manifests)]
    if broken:
        raise AccountingError(
            f"{day} is not to be published: {'; '.join(broken)}", remedy=f"run {day} again from the first stage named"
        )


def _of_another_day(manifests: Manifests, day: dt.date) -> Iterator[str]:
    for stage, manifest in manifests.items():
        if manifest.day != day.isoformat() or manifest.stage != stage:
            yield f"the manifest of {stage} is that of {manifest.stage} of {manifest.day}"


def _broken_links(manifests: Manifests) -> Iterator[str]:
    """Each stage must hold exactly the users of the one before, by count and digest, and be made from it."""
    for before, after in itertools.pairwise(SOURCES):
        source, made = manifests[before], manifests[after]
        if made.made_from.get(before) != source.digest:
            yield f"{after} was made from another version of {before}"
        if made.keys != source.keys:
            yield f"{after} holds {made.rows} rows and {before} {source.rows}, or they are not the same users"


def _record(manifests: Manifests, sources: Mapping[str, str], verdict: Verdict, at: dt.datetime) -> PublishRecord:
    scores = manifests[USER_SCORES]
    return PublishRecord(
        day=verdict.day,
        rows=scores.rows,
        keys=scores.keys,
        verdict_digest=verdict.digest,
        sources=sources,
        bundle_id=scores.facts["bundle_id"],
        null_rates=_null_rates(verdict),
        targets={OFFLINE: TargetState(state="done", at=at)},
    )


def _null_rates(verdict: Verdict) -> dict[str, float]:
    """The share of missing values by column over the day, as the gate of the shards observed it."""
    outcome = verdict.stages[USER_SHARDS].outcome("null_rates")
    rows: tuple[Mapping[str, Any], ...] = () if outcome is None else outcome.table
    return {row["column"]: row["observed"] for row in rows if row["shard"] == "day"}
