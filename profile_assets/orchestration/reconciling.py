"""A published day held against itself scored in full; and, where asked for, replaced by that. Nothing of Dagster here.

The scores in full come from the day's shards, by the bundle that readers see, and lie apart from the day's own. Taking
the place of those goes the way of every day: staged, judged, committed, published.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from profile_assets.errors import CorruptError, DataError, GateError
from profile_assets.orchestration.judging import stage_verdict
from profile_assets.orchestration.parity import parity_outcomes, utc_now
from profile_assets.profile import Deployment
from profile_assets.storage import atomic
from profile_assets.storage.layout import EXPORT, RECONCILE, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.published import PublishRecord, published_days, read_part_record
from profile_assets.storage.stages import commit, current
from profile_assets.storage.verdicts import StageVerdict, record

if TYPE_CHECKING:  # these come with torch, or are slow
    from profile_assets.feature_store.publish import Published
    from profile_assets.feature_store.reconcile import Reconciliation
    from profile_assets.scoring.running import Progress

OnWait = Callable[[str], None]


def reconcile_day(
    deployment: Deployment, day: dt.date | None, *, progress: Progress, on_wait: OnWait = lambda _: None
) -> Reconciliation:
    """Score a published day in full and compare; the newest one unless named. DataError where it cannot be done."""
    from profile_assets.feature_store.reconcile import compare
    from profile_assets.scoring.again import score_in_full
    from profile_assets.scoring.canary import canary_from

    layout = deployment.layout
    day = day or newest_published(layout)
    with _held(layout, day, USER_SHARDS, is_shared=True, on_wait=on_wait):
        published = _published(layout, day)
        full = score_in_full(
            layout,
            day,
            _bundle(layout, published),
            deployment.scoring,
            canary=canary_from(published.canary, layout.models),
            progress=progress,
        )
        found = compare(layout, day, full)
        told = {**found.to_json(), "published_at": published.published_at.isoformat()}
        atomic.write_json(layout.reconciliation(day), told, staging=layout.scratch("records"))
    return found


def replace_day(deployment: Deployment, day: dt.date, *, on_wait: OnWait = lambda _: None) -> Published:
    """Let the scores in full take the place of what is published. GateError where they do not pass."""
    from profile_assets.feature_store.publish import publish
    from profile_assets.models.bundle_files import read_bins
    from profile_assets.quality.gates import find_baselines, judge_export, judge_scores
    from profile_assets.scoring.again import stage_as_scores

    layout = deployment.layout
    with _held(layout, day, USER_SCORES, is_shared=False, on_wait=on_wait):
        staged, baselines = stage_as_scores(layout, day), find_baselines(layout, day)
        bins = read_bins(layout.bundle(staged.manifest.facts["bundle_id"]))
        told = staged.manifest.facts.get("canary")
        others = None if told is None else read_bins(layout.bundle(told["bundle_id"]))
        outcomes = judge_scores(layout, day, staged, deployment.rules, baselines, bins, canary_bins=others)
        _require(record(layout, day, stage_verdict(staged, outcomes, baselines)), day)
        commit(layout, day, staged)
    done = publish(layout, day, time_zone=deployment.profile.time_zone, clock=utc_now, export=deployment.export)
    seen = (*judge_export(layout, day), *parity_outcomes(done))
    _require(StageVerdict(stage=EXPORT, digest=done.record.verdict_digest, outcomes=seen), day)
    return done


def carried_since(layout: Layout, day: dt.date) -> list[dt.date]:
    """The later published days that hold scores carried from this one, be it by way of others; oldest first."""
    tainted = {day}
    for later in published_days(layout):
        if later > day and _carried_from(layout, later) in tainted:
            tainted.add(later)
    return sorted(tainted - {day})


def _carried_from(layout: Layout, day: dt.date) -> dt.date | None:
    """The day that a day's scores were carried from, as far as its manifest can be read."""
    try:
        scores = current(layout, USER_SCORES, day)
    except CorruptError:  # that day is to be run again as it is
        return None
    source = None if scores is None else scores.facts.get("carrying", {}).get("from")
    return None if source is None else dt.date.fromisoformat(source)


def newest_published(layout: Layout) -> dt.date:
    """DataError where nothing is published."""
    days = published_days(layout)
    if not days:
        raise DataError(f"nothing of {layout.name} is published", remedy="score and publish a day first")
    return days[-1]


@contextlib.contextmanager
def _held(layout: Layout, day: dt.date, stage: str, *, is_shared: bool, on_wait: OnWait) -> Iterator[None]:
    """One reconciliation at a time, and nobody who rewrites that stage of the day, or its shards, meanwhile."""
    with contextlib.ExitStack() as held:
        held.enter_context(atomic.locked(layout.shared_lock(RECONCILE), what="the reconciliation", on_wait=on_wait))
        for name in dict.fromkeys((stage, USER_SHARDS)):
            shared = is_shared or name != stage
            lock = layout.day_lock(name, day)
            held.enter_context(atomic.locked(lock, what=f"{name} of {day}", is_shared=shared, on_wait=on_wait))
        yield


def _published(layout: Layout, day: dt.date) -> PublishRecord:
    published, shards = read_part_record(layout, day), current(layout, USER_SHARDS, day)
    if published is None:
        raise DataError(f"{day} is not published", remedy="name a published day: profile-assets show")
    if shards is None or published.sources.get(USER_SHARDS) != shards.digest:
        raise DataError(
            f"the shards that {day} was published from are gone or were made again since",
            remedy="run and publish that day again, or reconcile a newer one",
        )
    return published


def _bundle(layout: Layout, published: PublishRecord) -> Path:
    return layout.bundle(published.bundle_id)


def _require(verdict: StageVerdict, day: dt.date) -> None:
    if verdict.stopping:
        reasons = "; ".join(one.told for one in verdict.stopping)
        raise GateError(
            f"{verdict.stage} of {day}, scored in full, did not pass: {reasons}",
            remedy="look at these checks; what readers see is unchanged where it is the scores that failed",
        )
