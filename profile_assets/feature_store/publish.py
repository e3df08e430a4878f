"""The one step that makes a day visible, and the last that looks before it does.

What is on disk decides, not what the caller believes: every file of the three stages is verified, the recorded verdict
must have passed exactly these digests, and the sums must close. Then one rename; then the record. A run that dies
between the two leaves a published day, whose record the next one writes from the file's footer.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from profile_assets.errors import AccountingError, CorruptError, DataError
from profile_assets.feature_store.offline import audit, stage_offline
from profile_assets.feature_store.withdraw import complete_withdrawal, require_not_withdrawn
from profile_assets.storage.atomic import locked, replace_file
from profile_assets.storage.days import as_utc
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.published import (
    OFFLINE,
    PublishRecord,
    TargetState,
    read_part_record,
    read_record,
    write_record,
)
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import require
from profile_assets.storage.verdicts import Verdict, read_verdict, require_passed

SOURCES = (RAW_USERS, USER_SHARDS, USER_SCORES)

Manifests = Mapping[str, Manifest]


def publish(layout: Layout, day: dt.date, *, time_zone: str, now: dt.datetime) -> PublishRecord:
    """Publish the day's scores; the record of what readers now see.

    A day that is published from the same data already is left as it is, file and `published_at`. Raises GateError
    unless the verdict passed what is on disk, AccountingError where users were lost or doubled on the way.
    """
    with _undisturbed(layout, day):
        complete_withdrawal(layout, day)
        published = _what_readers_see(layout, day)
        if published is not None:
            _roll_forward(layout, published)
        manifests = {stage: require(layout, stage, day) for stage in SOURCES}
        sources = {stage: manifest.digest for stage, manifest in manifests.items()}
        verdict = read_verdict(layout, day) or Verdict(day=day, stages={})
        require_passed(verdict, sources)
        require_not_withdrawn(layout, day, sources)
        _require_closed_sums(manifests, day)
        if published is not None and published.sources == sources:
            return read_record(layout, day) or published
        record = _record(manifests, sources, verdict, as_utc(now))
        replace_file(
            stage_offline(layout, manifests[USER_SCORES], record, time_zone=time_zone), layout.offline_part(day)
        )
        write_record(layout, record)
        return record


@contextlib.contextmanager
def _undisturbed(layout: Layout, day: dt.date) -> Iterator[None]:
    """Be the only one that publishes the day, while nobody rewrites what is published."""
    with contextlib.ExitStack() as held:
        held.enter_context(locked(layout.day_lock("publish", day), what=f"the publication of {day}"))
        for stage in reversed(SOURCES):
            held.enter_context(locked(layout.day_lock(stage, day), what=f"{stage} of {day}", is_shared=True))
        yield


def _what_readers_see(layout: Layout, day: dt.date) -> PublishRecord | None:
    """The record of the published file, once the file has proven whole; None for a damaged one, which is replaced."""
    try:
        published = read_part_record(layout, day)
        if published is not None:
            audit(layout.offline_part(day), published)
    except (CorruptError, DataError):
        return None
    return published


def _roll_forward(layout: Layout, published: PublishRecord) -> None:
    """Make the record say what the file says; a record that agrees keeps what it knows of other targets."""
    try:
        known = read_record(layout, published.day)
    except CorruptError:
        known = None
    told = (published.sources, published.targets[OFFLINE])
    if known is None or (known.sources, known.targets.get(OFFLINE)) != told:
        write_record(layout, published)


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
