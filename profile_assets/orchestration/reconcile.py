"""The weekly truth: a job that scores the newest published day in full, and a check that says what differs.

It sits on the published table, away from the daily runs, and replaces nothing. Replacing is a job of its own, which a
person launches.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's and the configuration's annotation.

import datetime as dt
from typing import TYPE_CHECKING, Any

import dagster as dg

from profile_assets.errors import DataError
from profile_assets.orchestration import pictures
from profile_assets.orchestration.jobs import after_night, check_job
from profile_assets.orchestration.keys import PUBLISHED, key_of, reconcile_job_name, replace_job_name
from profile_assets.orchestration.reconciling import carried_since, newest_published, reconcile_day, replace_day
from profile_assets.orchestration.shell import shard_logger, warn, working
from profile_assets.profile import Deployment
from profile_assets.storage.layout import EXPORT, USER_SCORES
from profile_assets.storage.published import published_days

if TYPE_CHECKING:  # what define_asset_job gives has no public name; the other is slow to import
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from profile_assets.feature_store.reconcile import Reconciliation

CHECK = "reconciled"
HOURS_AFTER = 3  # the nightly run is long over by then, and the day is due an hour before, by default


class ReconcileConfig(dg.Config):
    """Which day: YYYY-MM-DD, by default the newest published."""

    day: str = ""

    @property
    def date(self) -> dt.date | None:
        try:
            return dt.date.fromisoformat(self.day) if self.day else None
        except ValueError as error:
            raise DataError(f"{self.day!r} is no day", remedy="write it as 2026-01-05") from error


def reconcile_check(deployment: Deployment) -> dg.AssetChecksDefinition:
    """Is a published day what scoring it in full gives?"""

    @dg.asset_check(
        asset=key_of(deployment, PUBLISHED),
        name=CHECK,
        description="The newest published day, scored in full once more: nobody added, removed or changed.",
    )
    def reconciled(context: dg.AssetCheckExecutionContext, config: ReconcileConfig) -> dg.AssetCheckResult:
        with working(context, deployment):
            found = reconcile_day(
                deployment, config.date, progress=shard_logger(context), on_wait=lambda told: warn(context, told)
            )
            later = [] if found.is_equal else carried_since(deployment.layout, found.day)
        return dg.AssetCheckResult(
            passed=found.is_equal, description=_sentence(deployment, found, later), metadata=_metadata(found, later)
        )

    return reconciled


def _sentence(deployment: Deployment, found: "Reconciliation", later: list[dt.date]) -> str:
    if found.is_equal:
        return str(found)
    remedy = f"launch {replace_job_name(deployment)}, or run: profile-assets reconcile {found.day} --replace"
    then = f"; then run {', '.join(map(str, later))} again, which carried from it" if later else ""
    return f"{found} -> look at the examples; to replace the day {remedy}{then}"


def _metadata(found: "Reconciliation", later: list[dt.date]) -> dict[str, Any]:
    counts = ("published", "full", "added", "removed", "changed", "changed_carried", "largest")
    rows = [
        dg.TableRecord({name: "—" if value is None else value for name, value in one.items()}) for one in found.examples
    ]
    return {
        "day": found.day.isoformat(),
        "bundle_id": found.bundle_id,
        **{name: getattr(found, name) for name in counts},
        "differences": pictures.histogram(found.decades, low=0, high=1),
        "carried_since": ", ".join(map(str, later)) or "none",
        **({"examples": dg.MetadataValue.table(rows)} if rows else {}),
    }


def reconcile_job(deployment: Deployment) -> "UnresolvedAssetJobDefinition":
    """The check alone."""
    told = "Scores the newest published day in full and compares. Replaces nothing."
    return check_job(deployment, reconcile_job_name(deployment), CHECK, told)


def reconcile_weekly(deployment: Deployment, job: "UnresolvedAssetJobDefinition") -> dg.ScheduleDefinition:
    """Once a week, after the night's run."""
    return after_night(
        deployment,
        job,
        f"{deployment.profile.name}_reconcile_weekly",
        hours=HOURS_AFTER,
        weekday="1",
        unless=lambda: None if published_days(deployment.layout) else "nothing is published",
        description="Holds the newest published day against itself scored in full.",
    )


def replace_job(deployment: Deployment) -> dg.JobDefinition:
    """The scores in full of the day that was reconciled take the place of what is published."""
    name = replace_job_name(deployment)

    @dg.op(name=f"{name}_op")
    def replace(context: dg.OpExecutionContext, config: ReconcileConfig) -> None:
        with working(context, deployment):
            day = config.date or newest_published(deployment.layout)
            done = replace_day(deployment, day, on_wait=lambda told: warn(context, told))
        for stage in (USER_SCORES, EXPORT):
            shown: dict[str, int | str] = {
                "dagster/row_count": done.record.rows,
                "why": "replaced by its scores in full",
            }
            context.log_event(
                dg.AssetMaterialization(key_of(deployment, stage), partition=day.isoformat(), metadata=shown)
            )

    @dg.job(
        name=name,
        executor_def=dg.in_process_executor,
        description="Publishes the scores in full of the day that was reconciled last, in place of what is there.",
    )
    def reconcile_replace() -> None:
        replace()

    return reconcile_replace
