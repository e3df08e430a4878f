"""What readers see of a day, proven: the table, the verdict that it stands on, the copy on S3 and the lookups.

The table and the lookups are held against each other and against the stages, value by value.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from profile_assets.feature_store.bucket import Bucket
from profile_assets.feature_store.buckets import ROW_SCHEMA
from profile_assets.feature_store.online import compare
from profile_assets.feature_store.publish_online import ROLLED_BACK
from profile_assets.feature_store.rows import audit
from profile_assets.feature_store.versions import OnlineStore, Version
from profile_assets.storage.layout import USER_SCORES, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.parts import part_of, table_format
from profile_assets.storage.pruned import pruned_at
from profile_assets.storage.published import ONLINE, PublishRecord, TargetState, footer_record, read_record
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.storage.verdicts import read_verdict, require_passed
from profile_assets.storage.withdrawals import withdrawal_of
from profile_assets.storage.written import ScoreOrder
from profile_assets.upkeep.copy import copy_of
from profile_assets.upkeep.findings import Finding, State, looked
from profile_assets.upkeep.rerun import again, rerun_of
from profile_assets.upkeep.row_by_row import moments, riding


def publication(
    layout: Layout,
    day: dt.date,
    manifests: Mapping[str, Manifest],
    *,
    time_zone: str,
    online: OnlineStore | None,
    bucket: Bucket | None,
) -> Iterator[Finding]:
    """The verdict, the record, the part of the table, its copy and the lookups."""
    published: list[tuple[PublishRecord, Path]] = []
    yield looked("offline", lambda: _table(layout, day, published))
    yield from _copies(layout, day, bucket, published)
    if not published:
        return
    told, part = published[0]
    yield looked("verdict", lambda: _verdict(layout, day, told))
    yield looked("origin", lambda: _origin(layout, day, told, part, manifests))
    yield looked("rows", lambda: moments(told, part, time_zone))
    yield looked("columns", lambda: riding(layout, told, part, manifests))
    if online is not None:
        yield looked("online", lambda: _online(layout, online, told, part))


def _table(layout: Layout, day: dt.date, published: list[tuple[PublishRecord, Path]]) -> tuple[State, str]:
    """The day's file; `published` takes it and what its footer says, once it has proven whole."""
    part, record = part_of(layout, day), read_record(layout, day)
    withdrawal = withdrawal_of(layout, record)
    if part is None and (record is None or withdrawal is not None):
        return "none", "" if withdrawal is None else f"withdrawn by {withdrawal.by}: {withdrawal.why}"
    if part is None:
        mends = f"`profile-assets backfill {day} {day}` mends it"
        return "wrong", f"its record says that it is published, and the table has no such day; {mends}"
    told = footer_record(part, day)
    audit(part, told)
    published.append((told, part))
    whole: tuple[State, str] = "right", f"{told.rows:,} rows of {told.bundle_id}, every value read"
    return _beside(layout, told, record) or _alone(layout, part) or whole


def _verdict(layout: Layout, day: dt.date, told: PublishRecord) -> tuple[State, str]:
    verdict = read_verdict(layout, day)
    if verdict is None:
        return "wrong", f"it is published, and has no verdict; `profile-assets backfill {day} {day}` judges it again"
    rerun = rerun_of(layout, day)
    if rerun is not None:
        return ("noted" if rerun.stopping else "wrong"), f"what is published stands; {rerun}"
    require_passed(verdict, told.sources)
    return "right", "it passed what is published"


def _origin(
    layout: Layout, day: dt.date, told: PublishRecord, part: Path, manifests: Mapping[str, Manifest]
) -> tuple[State, str]:
    """What is published is what lies in the stages: by digest, and score by score."""
    other = [stage for stage, manifest in manifests.items() if told.sources.get(stage) != manifest.digest]
    rerun = rerun_of(layout, day) if other else None
    is_left = rerun is not None and rerun.has_left(manifests)
    if other and not is_left:
        return "wrong", f"readers see another {', '.join(other)} than lies there; {again(day)}"
    gone = [stage for stage in told.sources if stage not in manifests]
    if gone:
        return "missing", f"{', '.join(gone)} that it was made from, and nobody pruned that; {again(day)}"
    if USER_SCORES in other:
        return "noted", "the scores that it was made from were replaced by a later run"
    scores = manifests[USER_SCORES]
    if pruned_at(layout.stage(USER_SCORES, day)) is not None:
        return "pruned", "the scores that it was made from are gone"
    files = [layout.stage(USER_SCORES, day) / entry.name for entry in scores.files]
    if _content(files) != _content([part]):
        return "wrong", f"the table has other scores than user_scores; {again(day)}"
    return "right", "every score is that of user_scores"


def _beside(layout: Layout, told: PublishRecord, record: PublishRecord | None) -> tuple[State, str] | None:
    """Records that do not agree with the file of the table; None where they do."""
    mends = f"`profile-assets publish {told.day}` mends it"
    if withdrawal_of(layout, told) is not None:
        return "wrong", "it is withdrawn and still in the table; the same `withdraw` completes it"
    if record is None:
        return "wrong", f"the table has it, and it has no publish record; {mends}"
    return None if record.sources == told.sources else ("wrong", f"its record is not that of the file; {mends}")


def _content(paths: Sequence[Path]) -> str:
    """The ids in their order and the bits of their scores, through all the files, as one digest."""
    order = ScoreOrder()
    for batch in itertools.chain.from_iterable(iter_batches(path, columns=[ID_COLUMN, "score"]) for path in paths):
        order.add(batch.column(ID_COLUMN), batch.column("score"))
    return order.digest


def _online(layout: Layout, store: OnlineStore, told: PublishRecord, part: Path) -> tuple[State, str]:
    """Every version that lookups have of this publication, user by user by digest, and a sample by value."""
    record = read_record(layout, told.day)
    target = None if record is None else record.targets.get(ONLINE)
    live = store.live()
    held = [one.version for one in store.held() if one.version.day == told.day]
    is_live = live is not None and live.day == told.day
    if target is not None and target.note.startswith(ROLLED_BACK):
        return "none", target.note
    if target is not None and target.state == "pending":
        return "wrong", f"pending{f' ({target.note})' if target.note else ''}; `profile-assets publish {told.day}`"
    if not held:
        return _unserved(told.day, target, live)
    if is_live and live is not None and live.id not in {version.id for version in held}:
        return _unserved(told.day, target, live)
    for version in held:
        same = version.published_at == told.published_at
        if not same and not (live is not None and version.id == live.id):
            continue  # an earlier publication of the day, kept for a rollback
        parity = compare(store, version, _rows(part))
        if not (same and parity.is_equal):
            return "wrong", f"{version.id}: {parity}"
    return "right", "live, the users and a sample of scores compared" if is_live else "held for a rollback, compared"


def _alone(layout: Layout, part: Path) -> tuple[State, str] | None:
    """What readers of a Parquet table would see beside the day's file; None where nothing."""
    strangers = [path.name for path in part.parent.glob("*.parquet") if path != part]
    if table_format(layout) != "parquet" or not strangers:
        return None
    return "wrong", f"readers also see {', '.join(strangers)}, which nobody here wrote: move it away"


def _unserved(day: dt.date, target: TargetState | None, live: Version | None) -> tuple[State, str]:
    """A day of which lookups hold no whole version: right only where they serve another day."""
    if live is not None and live.day == day:
        again = f"`profile-assets backfill {day} {day} --again`"
        return "wrong", f"lookups point to {live.id}, which is damaged or gone; {again} builds it anew"
    if live is None and target is not None and target.state == "done":
        return "wrong", f"its record says done, and lookups serve nothing; `profile-assets publish {day}`"
    return "none", "no version of it is held" if live is None else f"lookups serve {live.day}"


def _copies(
    layout: Layout, day: dt.date, bucket: Bucket | None, published: Sequence[tuple[PublishRecord, Path]]
) -> Iterator[Finding]:
    """The copy on S3, for a profile that has one or a day that had."""
    found = looked("s3", lambda: copy_of(layout, day, bucket, published[0][0] if published else None))
    if found.detail:
        yield found


def _rows(part: Path) -> Callable[[], Iterable[pa.RecordBatch]]:
    return lambda: (batch.cast(ROW_SCHEMA) for batch in iter_batches(part, columns=ROW_SCHEMA.names))
