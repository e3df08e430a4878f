"""Published days whose source was rewritten since: found by a check, and scored again by one job.

The check reads nothing where names, sizes and times are those that landed; else the contents decide, so that a file
that was only touched is no restatement. Like freshness it sits on the published table, away from the daily runs.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
from typing import TYPE_CHECKING

import dagster as dg

from profile_assets.errors import CorruptError
from profile_assets.orchestration.jobs import check_job
from profile_assets.orchestration.keys import PUBLISHED, key_of, redo_job_name
from profile_assets.orchestration.shell import working
from profile_assets.profile import Deployment
from profile_assets.storage.layout import RAW_USERS
from profile_assets.storage.published import published_days, read_part_record
from profile_assets.storage.stages import current
from profile_assets.users.taking import Change, change_of

if TYPE_CHECKING:  # what define_asset_job gives has no public name
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

CHECK = "source_unchanged"


def source_changes(deployment: Deployment) -> dict[dt.date, Change]:
    """What became of the source of each of the newest published days since it was read, oldest first."""
    watched = deployment.profile.source.watch_days
    days = published_days(deployment.layout)[-watched:] if watched else []
    return {day: _change(deployment, day) for day in days}


def _change(deployment: Deployment, day: dt.date) -> Change:
    try:
        manifest, record = current(deployment.layout, RAW_USERS, day), read_part_record(deployment.layout, day)
    except CorruptError:  # to score the day again is its remedy, and one such day must not hide the others
        return "restated"
    if manifest is None or record is None or record.sources[RAW_USERS] != manifest.digest:
        return "restated"  # it landed again since, and readers do not see what landed then
    return change_of(deployment.source, deployment.contract, day, manifest, dt.datetime.now(dt.UTC))


def restated_days(deployment: Deployment) -> list[dt.date]:
    """The published days to score again, oldest first."""
    return [day for day, change in source_changes(deployment).items() if change == "restated"]


def source_check(deployment: Deployment) -> dg.AssetChecksDefinition:
    """Is every recent published day still what its source says?"""

    @dg.asset_check(
        asset=key_of(deployment, PUBLISHED),
        name=CHECK,
        description="The sources of the newest published days are those that they were made from.",
    )
    def source_unchanged(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with working(context, deployment):
            changes = source_changes(deployment)
        restated = [str(day) for day, change in changes.items() if change == "restated"]
        told = f"restated since: {', '.join(restated)}; launch the job {redo_job_name(deployment)} to score them again"
        return dg.AssetCheckResult(
            passed=not restated,
            severity=dg.AssetCheckSeverity.WARN,
            description=told if restated else f"none of {len(changes)} published days was restated",
            metadata={
                "num_restated": len(restated),
                "num_compared": sum(change in ("same", "restated") for change in changes.values()),
                "days": dg.MetadataValue.table(
                    [dg.TableRecord({"day": str(day), "source": change}) for day, change in changes.items()]
                    or [dg.TableRecord({"day": "none", "source": "nothing is published"})]
                ),
            },
        )

    return source_unchanged


def source_check_job(deployment: Deployment) -> "UnresolvedAssetJobDefinition":
    """The check alone."""
    told = "Was the source of a published day restated?"
    return check_job(deployment, f"{deployment.profile.name}_source_check", CHECK, told)


def redo_job(deployment: Deployment) -> dg.JobDefinition:
    """One click: scores every restated day again, each by a run of the day's own job."""
    name = redo_job_name(deployment)

    @dg.op(name=f"{name}_op")
    def redo(context: dg.OpExecutionContext) -> None:
        from profile_assets.orchestration.launch import redo_days

        with working(context, deployment):
            days = restated_days(deployment)
            context.log.info(f"restated: {', '.join(map(str, days)) or 'no day'}")
            redo_days(deployment, context.instance, days)

    @dg.job(
        name=name, executor_def=dg.in_process_executor, description="Scores again the days whose source was restated."
    )
    def redo_restated() -> None:
        redo()

    return redo_restated
