"""The one step that makes a day visible, and the last that looks before it does: the table first, then the lookups.

What is on disk decides, not what the caller believes: every file of the three stages is verified, the recorded verdict
must have passed exactly these digests, and the sums must close. Then one commit; then the record, which names each
target as done or pending; then the online store, by one switch. Every step can be repeated: a run that dies anywhere
leaves each target at the old day or the new one, and the next run takes up what is not done.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from profile_assets.errors import CorruptError, DataError, ProfileAssetsError
from profile_assets.feature_store.bucket import Bucket, open_bucket
from profile_assets.feature_store.offline import OfflineStore, open_offline
from profile_assets.feature_store.online import Brought, open_online
from profile_assets.feature_store.publish_bucket import publish_bucket
from profile_assets.feature_store.publish_online import (
    Lookups,
    Seen,
    publish_online,
    roll_forward,
    take_out,
)
from profile_assets.feature_store.recording import record_of, require_closed_sums
from profile_assets.feature_store.rows import audit, has_columns, stage_rows, table_schema
from profile_assets.feature_store.settings import ExportSettings
from profile_assets.feature_store.versions import OnlineStore
from profile_assets.feature_store.withdraw import TakeBack, complete_withdrawal, require_not_withdrawn
from profile_assets.storage.atomic import locked
from profile_assets.storage.days import as_utc
from profile_assets.storage.layout import ROWS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import unpacked_on_disk
from profile_assets.storage.pruned import pruned_at
from profile_assets.storage.published import (
    BUCKET,
    ONLINE,
    PublishRecord,
    footer_record,
    read_record,
    with_target,
    write_record,
)
from profile_assets.storage.records import Manifest
from profile_assets.storage.space import bytes_of, require_space
from profile_assets.storage.stages import current, require
from profile_assets.storage.verdicts import Verdict, read_verdict, require_passed

ONLINE_FACTOR = 1.5
"""Bytes of the embedded store's file by those of the scores unpacked, as ids lie there: 1.1 to 1.35 were measured for
ids of 9 to 200 bytes (benchmarks/space.py). By those of the scores as they lie it is 2 to 24, by how alike ids are."""


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


def publish(
    layout: Layout,
    day: dt.date,
    *,
    time_zone: str,
    clock: Callable[[], dt.datetime],
    export: ExportSettings | None = None,
    online: OnlineStore | None = None,
    bucket: Bucket | None = None,
) -> Published:
    """Publish the day's scores to every target; what is done already is left as it is.

    `online` and `bucket` are used in place of those that `export` names. Raises GateError unless the verdict passed
    what is on disk, AccountingError where users were lost or doubled on the way. Where another target cannot be
    reached, the table stays published, the record says `pending`, and a TransientError says how to complete it.
    """
    export = export or ExportSettings()
    table = open_offline(layout, export.offline)
    lookups = None
    if export.online is not None:
        store = open_online(layout, export.online) if online is None else online
        lookups = Lookups(store=store, settings=export.online, time_zone=time_zone, clock=clock)
    if export.bucket is not None:
        bucket = open_bucket(export.bucket, layout.name) if bucket is None else bucket
    with _undisturbed(layout, day):
        complete_withdrawal(layout, day, others=_taking_back(layout, lookups, bucket))
        seen = _publish_table(layout, table, day, export, time_zone=time_zone, clock=clock)
        return _publish_others(layout, seen, lookups, bucket, clock)


def _taking_back(layout: Layout, lookups: Lookups | None, bucket: Bucket | None) -> dict[str, TakeBack]:
    found: dict[str, TakeBack] = {}
    if lookups is not None:
        found[ONLINE] = partial(take_out, layout, lookups)
    if bucket is not None:
        found[BUCKET] = bucket.remove
    return found


def _publish_others(
    layout: Layout, seen: Seen, lookups: Lookups | None, bucket: Bucket | None, clock: Callable[[], dt.datetime]
) -> Published:
    """The targets beside the table; one that fails holds up no other."""
    failed: ProfileAssetsError | None = None
    if bucket is not None:
        seen, failed = publish_bucket(layout, seen, bucket, clock)
    done = Published(record=seen.record, part=seen.part)
    if lookups is not None:
        told = publish_online(layout, seen, lookups)
        done = Published(record=told.record, part=seen.part, brought=told.brought, differing=told.differing)
    if failed is not None:
        raise failed
    return done


def _require_space(layout: Layout, day: dt.date, scores: Manifest, shards: Manifest, export: ExportSettings) -> None:
    """Room for the table's file, and for the lookups' where they lie on this disk."""
    needed: float = bytes_of(scores) + (bytes_of(shards) if export.columns else 0)
    if export.online is not None and export.online.store == "sqlite":
        files = (layout.stage(USER_SCORES, day) / entry.name for entry in scores.files)
        needed += ONLINE_FACTOR * sum(unpacked_on_disk(path) for path in files)
    require_space(layout, f"the publication of {day}", needed)


@contextlib.contextmanager
def _undisturbed(layout: Layout, day: dt.date) -> Iterator[None]:
    """Be the only one that publishes the day, while nobody rewrites what is published."""
    with contextlib.ExitStack() as held:
        held.enter_context(locked(layout.day_lock("publish", day), what=f"the publication of {day}"))
        for stage in reversed(ROWS):
            held.enter_context(locked(layout.day_lock(stage, day), what=f"{stage} of {day}", is_shared=True))
        yield


def _publish_table(
    layout: Layout,
    table: OfflineStore,
    day: dt.date,
    export: ExportSettings,
    *,
    time_zone: str,
    clock: Callable[[], dt.datetime],
) -> Seen:
    """The day in the table, as it is or new, and its record."""
    seen = _what_readers_see(table, day)
    if seen is not None:
        known = roll_forward(layout, seen.record)
        if _is_pruned_since(layout, day, seen.record):
            require_passed(read_verdict(layout, day) or Verdict(day=day, stages={}), seen.record.sources)
            return Seen(record=known, part=seen.part)
    manifests = {stage: require(layout, stage, day) for stage in ROWS}
    sources = {stage: manifest.digest for stage, manifest in manifests.items()}
    verdict = read_verdict(layout, day) or Verdict(day=day, stages={})
    require_passed(verdict, sources)
    require_not_withdrawn(layout, day, sources, manifests[USER_SCORES].facts["bundle_id"])
    require_closed_sums(manifests, day)
    schema = table_schema(layout, day, manifests[USER_SHARDS], export.columns)
    if seen is not None and seen.record.sources == sources and has_columns(seen.part, schema):
        return Seen(record=read_record(layout, day) or seen.record, part=seen.part)
    # Every row carries this moment: the rows are written, audited and moved in after it, and looked at before.
    now = as_utc(clock())
    record = record_of(manifests, sources, verdict, now)
    scores, shards = manifests[USER_SCORES], manifests[USER_SHARDS]
    _require_space(layout, day, scores, shards, export)
    staged, record = stage_rows(layout, scores, shards, record, schema=schema, time_zone=time_zone)
    table.replace(staged, record)
    for target, wanted in ((ONLINE, export.online), (BUCKET, export.bucket)):
        if wanted is not None:
            record = with_target(record, target, "pending", now)
    write_record(layout, record)
    return Seen(record=record, part=_require_part(table, day))


def _is_pruned_since(layout: Layout, day: dt.date, told: PublishRecord) -> bool:
    """Whether the stages are those that were published, and only their rows are gone, as is usual after a while."""
    manifests = {stage: current(layout, stage, day) for stage in ROWS}
    are_same = {stage: one.digest for stage, one in manifests.items() if one is not None} == dict(told.sources)
    return are_same and any(pruned_at(layout.stage(stage, day)) is not None for stage in ROWS)


def _what_readers_see(table: OfflineStore, day: dt.date) -> Seen | None:
    """The published file and its record, once it has proven whole; None for a damaged one, which is replaced."""
    try:
        part = table.part(day)
        if part is None:
            return None
        record = footer_record(part, day)
        audit(part, record)
    except (CorruptError, DataError):
        return None
    return Seen(record=record, part=part)


def _require_part(table: OfflineStore, day: dt.date) -> Path:
    part = table.part(day)
    if part is None:
        raise CorruptError(f"{table.path} lost {day} just after it was published", remedy=f"publish {day} again")
    return part
