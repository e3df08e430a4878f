"""Two sensors: one looks once a tick and tells what is news, the other notes each run that failed.

Both are thin: what they do is `alerts.watch.look` and `alerts.incidents.note`. They are on from the start where the
profile names a channel. The cursor only shows what is open; what is remembered lies on the disk, see `alerts.book`.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
import os
from collections.abc import Callable

import dagster as dg
from dagster._core.storage.tags import BACKFILL_ID_TAG, WILL_RETRY_TAG  # they have no public name

from profile_assets.alerts.book import FinishedRun
from profile_assets.alerts.incidents import Incident, note
from profile_assets.alerts.problems import gate_remedy, outcome_in_words
from profile_assets.alerts.watch import Runs, look
from profile_assets.errors import CorruptError, LockedError, ProfileAssetsError
from profile_assets.orchestration.failures import Failed, failed
from profile_assets.orchestration.keys import (
    alerts_sensor_name,
    day_job_name,
    freshness_job_name,
    key_of,
    run_failures_sensor_name,
)
from profile_assets.orchestration.parity import utc_now
from profile_assets.profile import Deployment
from profile_assets.storage.layout import EXPORT
from profile_assets.storage.verdicts import read_verdict

MINIMUM_INTERVAL_S = 15
PARTITION_TAG = "dagster/partition"
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
_GOING_ON = ("REQUESTED", "CANCELING", "FAILING")


def alert_sensors(deployment: Deployment, clock: Callable[[], dt.datetime] = utc_now) -> list[dg.SensorDefinition]:
    """The sensor that looks, and the one that notes failed runs."""
    has_channels = bool(deployment.watch.settings.channels)
    status = dg.DefaultSensorStatus.RUNNING if has_channels else dg.DefaultSensorStatus.STOPPED
    return [_looking(deployment, status, clock), _noting(deployment, status)]


def _looking(
    deployment: Deployment, status: dg.DefaultSensorStatus, clock: Callable[[], dt.datetime]
) -> dg.SensorDefinition:
    @dg.sensor(
        name=alerts_sensor_name(deployment),
        minimum_interval_seconds=MINIMUM_INTERVAL_S,
        default_status=status,
        description="Tells once of what is wrong and once that it is over; writes the metrics and the heartbeat.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        _bring_up_to_date(context, deployment)
        try:
            seen = look(deployment.watch, now=clock(), environment=os.environ, runs=_runs(deployment, context.instance))
        except LockedError as error:  # another tick, or a command, is at it
            return dg.SensorResult(skip_reason=str(error), cursor=context.cursor)
        context.log.info(str(seen))
        return dg.SensorResult(skip_reason=str(seen), cursor="; ".join(seen.open) or "nothing is wrong")

    return alerts


def _bring_up_to_date(context: dg.SensorEvaluationContext, deployment: Deployment) -> None:
    """Where that fails, what lies here can only be too old, which is told of as stale: somebody is to be told."""
    try:
        deployment.pull()
    except ProfileAssetsError as error:
        context.log.error(f"judging by what was known before: {error}")


def _runs(deployment: Deployment, instance: dg.DagsterInstance) -> Runs:
    """What the instance knows of runs."""

    def is_retried(run_id: str) -> bool:
        run = instance.get_run_by_id(run_id)
        return run is not None and run.tags.get(WILL_RETRY_TAG) == "true"

    def is_going_on(backfill_id: str) -> bool:
        backfill = instance.get_backfill(backfill_id)
        return backfill is not None and backfill.status.value in _GOING_ON

    return Runs(is_retried=is_retried, is_going_on=is_going_on, last=_last(deployment, instance))


def _last(deployment: Deployment, instance: dg.DagsterInstance) -> FinishedRun | None:
    """The newest ended run that published a day, or was to."""
    by_asset = instance.get_latest_materialization_event(key_of(deployment, EXPORT))
    ids = [] if by_asset is None else [by_asset.run_id]
    filters = [dg.RunsFilter(job_name=day_job_name(deployment), statuses=_ENDED)]
    filters += [dg.RunsFilter(run_ids=ids, statuses=_ENDED)] if ids else []
    records = [record for one in filters for record in instance.get_run_records(filters=one, limit=1)]
    record = max(records, key=lambda one: one.end_time or 0.0, default=None)
    if record is None or record.start_time is None or record.end_time is None:
        return None
    return FinishedRun(
        day=record.dagster_run.tags.get(PARTITION_TAG, ""),
        seconds=round(record.end_time - record.start_time, 3),
        is_success=record.dagster_run.status == dg.DagsterRunStatus.SUCCESS,
    )


def _noting(deployment: Deployment, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name=run_failures_sensor_name(deployment),
        minimum_interval_seconds=MINIMUM_INTERVAL_S,
        default_status=status,
        description="Notes each run that failed and is not tried again; the sensor of alerts tells of them together.",
    )
    def run_failures(context: dg.RunFailureSensorContext) -> dg.SkipReason:
        run = context.dagster_run
        if not _is_ours(deployment, run):
            return dg.SkipReason(f"run {run.run_id} is none to tell of")
        if run.tags.get(WILL_RETRY_TAG) == "true":
            return dg.SkipReason(f"run {run.run_id} is started again")
        incident = _incident(deployment, run, failed(context))
        note(deployment.layout, incident)
        return dg.SkipReason(f"run {run.run_id} is noted: {incident.reason}")

    return run_failures


def _is_ours(deployment: Deployment, run: dg.DagsterRun) -> bool:
    """Whether a run works for this profile, by its job's name or its assets; freshness is judged at every look."""
    name = deployment.profile.name
    if run.job_name == freshness_job_name(deployment):
        return False
    assets = run.asset_selection or ()
    checks = run.asset_check_selection or ()
    keys = [*assets, *(check.asset_key for check in checks)]
    return run.job_name.startswith(f"{name}_") or any(key.path[0] == name for key in keys)


def _incident(deployment: Deployment, run: dg.DagsterRun, found: Failed) -> Incident:
    partition, url = run.tags.get(PARTITION_TAG), deployment.profile.alerts.ui_url
    day = _day(partition)
    gate = _gate(deployment, day, found)
    reason, remedy = gate or (found.what, found.remedy)
    return Incident(
        run_id=run.run_id,
        kind="run_failed" if found.gate is None else "gate_failed",
        at=found.at,
        job=run.job_name,
        day=day,
        stage=found.step,
        reason=reason,
        remedy=remedy,
        link="" if url is None else f"{url.rstrip('/')}/runs/{run.run_id}",
        group=run.tags.get(BACKFILL_ID_TAG, ""),
    )


def _day(partition: str | None) -> dt.date | None:
    try:
        return None if partition is None else dt.date.fromisoformat(partition)
    except ValueError:  # a range of days, in one run
        return None


def _gate(deployment: Deployment, day: dt.date | None, found: Failed) -> tuple[str, str] | None:
    """The checks that stopped a day and what to do, from its verdict; None where no recorded check did."""
    if found.gate is None or day is None:
        return None
    try:
        verdict = read_verdict(deployment.layout, day)
    except CorruptError:
        return None
    stage = None if verdict is None else verdict.stages.get(found.gate)
    if stage is None or not stage.stopping:
        return None
    return "; ".join(map(outcome_in_words, stage.stopping)), gate_remedy(day, stage.stopping)
