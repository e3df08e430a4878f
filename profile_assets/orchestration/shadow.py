"""The shadow: a bundle that scores a published day beside what readers see, in a job of its own, after the day's.

It runs in a process of its own that is ended at the profile's limit. Whatever becomes of it, what is published stays.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import dagster as dg

from profile_assets.errors import BundleError, DataError
from profile_assets.models import registry
from profile_assets.orchestration import pictures
from profile_assets.orchestration.keys import key_of, shadow_job_name
from profile_assets.orchestration.partitions import daily_partitions
from profile_assets.orchestration.shell import day_of, working
from profile_assets.profile import Deployment
from profile_assets.quality.freshness import ONE_DAY
from profile_assets.storage import atomic
from profile_assets.storage.layout import EXPORT, SHADOW
from profile_assets.storage.published import published_days, read_part_record

if TYPE_CHECKING:  # what define_asset_job gives has no public name
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_HOURS_AFTER = 2
_SPARE_S = 600
_FIGURES = (
    "day",
    "bundle_id",
    "published_bundle_id",
    "share",
    "published_mean",
    "shadow_mean",
    "psi",
    "rank_correlation",
    "mean_difference",
    "largest_difference",
    "disagreeing",
    "seconds",
    "us_per_user",
    "published_us_per_user",
)


def score_shadow(deployment: Deployment, day: dt.date) -> dict[str, Any]:
    """Score the day by the registry's shadow and compare. ScoringError where it raised, hung or died; BundleError
    where there is no shadow.
    """
    from profile_assets.shadow.apart import run_apart
    from profile_assets.shadow.work import ShadowTask, score_and_compare

    layout, settings = deployment.layout, deployment.profile.shadow
    pointer = registry.read_pointer(layout, registry.SHADOW)
    if pointer is None:
        raise BundleError(
            f"{layout.name} has no shadow", remedy='choose a bundle: profile-assets models shadow ID --why "..."'
        )
    registry.require_bundle(layout, pointer.bundle_id)
    if read_part_record(layout, day) is None:
        raise DataError(f"{day} is not published", remedy="name a published day: profile-assets show")
    task = ShadowTask(
        layout=layout,
        day=day,
        bundle_id=pointer.bundle_id,
        settings=deployment.scoring,
        share=settings.share,
        segment=settings.segment,
        differs_by=settings.differs_by,
    )
    limit_s, what = settings.limit_minutes * 60, f"the shadow {pointer.bundle_id} of {day}"
    with atomic.locked(layout.shared_lock(SHADOW), what="the shadow"):
        return run_apart(score_and_compare, task, limit_s=limit_s, what=what)


def shadow_scores(deployment: Deployment) -> dg.AssetsDefinition:
    """What the shadow makes of a published day. Nothing is materialized while the registry has none."""

    @dg.asset(
        key=key_of(deployment, SHADOW),
        partitions_def=daily_partitions(deployment.profile),
        deps=[key_of(deployment, EXPORT)],
        group_name=deployment.profile.name,
        kinds={"pytorch", "parquet"},
        output_required=False,
        description="The day scored by the bundle that the registry's `shadow` names, beside what is published.",
    )
    def shadow_scores(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        if registry.read_pointer(deployment.layout, registry.SHADOW) is None:
            context.log.info("there is no shadow, and so there is nothing to do")
            return
        day = day_of(context)
        with working(context, deployment, day):
            found = score_shadow(deployment, day)
        yield dg.MaterializeResult(metadata=_metadata(found))

    return shadow_scores


def _metadata(found: dict[str, Any]) -> dict[str, Any]:
    figures = {name: found[name] for name in _FIGURES if found[name] is not None}
    overlaps = {f"top_{float(share):.0%}_overlap": one for share, one in found["overlaps"].items() if one is not None}
    shown = {
        "dagster/row_count": found["rows"],
        **figures,
        **{name.replace("%", "_percent"): one for name, one in overlaps.items()},
        "published_scores": pictures.histogram(found["published_counts"], low=0, high=1),
        "shadow_scores": pictures.histogram(found["shadow_counts"], low=0, high=1),
        "differences": pictures.histogram(found["difference_counts"], low=-1, high=1),
    }
    if found["segments"]:
        rows = [{name: _cell(value) for name, value in row.items()} for row in found["segments"]]
        shown["segments"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
    return shown


def _cell(value: str | int | float) -> str | int | float:
    return round(value, 6) if isinstance(value, float) else value


def shadow_job(deployment: Deployment) -> "UnresolvedAssetJobDefinition":
    """The asset alone."""
    limit_s = round(deployment.profile.shadow.limit_minutes * 60) + _SPARE_S
    return dg.define_asset_job(
        shadow_job_name(deployment),
        selection=dg.AssetSelection.assets(key_of(deployment, SHADOW)),
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": str(limit_s)},
        description="Scores a published day by the shadow, and compares. Publishes nothing.",
    )


def shadow_nightly(deployment: Deployment, job: "UnresolvedAssetJobDefinition") -> dg.ScheduleDefinition:
    """Yesterday, once it is published, while there is a shadow."""
    schedule, zone = deployment.profile.schedule, deployment.profile.time_zone

    @dg.schedule(
        name=f"{deployment.profile.name}_shadow_nightly",
        job=job,
        cron_schedule=f"{schedule.minute} {(schedule.hour + _HOURS_AFTER) % 24} * * *",
        execution_timezone=zone,
        description="Scores yesterday by the shadow, if there is one and the day is published.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        day = context.scheduled_execution_time.astimezone(ZoneInfo(zone)).date() - ONE_DAY
        deployment.pull()
        if registry.read_pointer(deployment.layout, registry.SHADOW) is None:
            return dg.SkipReason("there is no shadow")
        if day not in published_days(deployment.layout):
            return dg.SkipReason(f"{day} is not published")
        return dg.RunRequest(partition_key=day.isoformat())

    return nightly
