"""Runs started from the command line: through Dagster, recorded on its instance, but in this one process.

The instance is DAGSTER_HOME's, or that of a dagster.yaml in the working folder, which is what `dagster dev` uses too.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from profile_assets.errors import DataError, StorageError
from profile_assets.models.choosing import STABLE
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.choice import MODEL_TAG
from profile_assets.orchestration.in_progress import end_dead_runs, tag_of
from profile_assets.orchestration.instance import open_instance
from profile_assets.orchestration.keys import (
    PUBLISHED,
    canary_job_name,
    day_job_name,
    freshness_job_name,
    reconcile_job_name,
    replace_job_name,
    shadow_job_name,
    train_job_name,
)
from profile_assets.orchestration.partitions import daily_partitions
from profile_assets.orchestration.reconcile import CHECK as RECONCILED
from profile_assets.orchestration.shell import TRANSIENT
from profile_assets.orchestration.watching import ends_with_its_run
from profile_assets.profile import Deployment

if TYPE_CHECKING:
    from dagster._core.execution.plan.objects import StepFailureData

# Dagster's own log goes to the instance, where the UI shows it; the terminal has a progress bar instead.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_NOTHING: Mapping[str, Any] = {}
_INTERRUPTS = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")
_OVER = (
    "PIPELINE_FAILURE",
    "PIPELINE_CANCELING",
    "PIPELINE_CANCELED",
)  # as the events have been called since early days
_UNASKED = "No user initiated termination request was found"


@dataclass(frozen=True, kw_only=True)
class Session:
    """One deployment's jobs on one instance."""

    deployment: Deployment
    definitions: dg.Definitions
    instance: dg.DagsterInstance

    def score(self, day: dt.date, *, model: str = STABLE) -> None:
        """Run the day's job, by today's stable model or another. DataError with what stopped it, or StorageError after
        retries.
        """
        tags = {} if model == STABLE else {MODEL_TAG: model}
        self._run(day_job_name(self.deployment), partition_key=day.isoformat(), tags=tags)

    def train(self) -> str:
        """Run the training job; gives the id of its bundle. DataError with what stopped it."""
        result = self._run(train_job_name(self.deployment), partition_key=None)
        (made,) = (event.materialization for event in result.get_asset_materialization_events())
        return str(made.metadata["bundle_id"].value)

    def judge_freshness(self) -> None:
        """Run the freshness check. DataError with what stopped it; a stale table is a result, not an error."""
        self._run(freshness_job_name(self.deployment), partition_key=None)

    def shadow(self, day: dt.date) -> None:
        """Score a published day by the shadow. DataError with what stopped it; what is published stays as it is."""
        self._run(shadow_job_name(self.deployment), partition_key=day.isoformat())

    def compare_canary(self) -> None:
        """Run the check that holds the canary's users against the others. What it finds is a result, not an error."""
        self._run(canary_job_name(self.deployment), partition_key=None)

    def reconcile(self, day: dt.date) -> None:
        """Run the job that holds a published day against itself scored in full. DataError with what stopped it; a
        difference is a result, not an error.
        """
        op = f"{self.deployment.profile.name}__{PUBLISHED}_{RECONCILED}"
        config = {"ops": {op: {"config": {"day": day.isoformat()}}}}
        self._run(reconcile_job_name(self.deployment), partition_key=None, config=config)

    def replace(self, day: dt.date) -> None:
        """Run the job that publishes the day's scores in full. DataError with what stopped it."""
        name = replace_job_name(self.deployment)
        config = {"ops": {f"{name}_op": {"config": {"day": day.isoformat()}}}}
        self._run(name, partition_key=None, config=config)

    def _run(
        self,
        job: str,
        *,
        partition_key: str | None,
        config: Mapping[str, Any] = _NOTHING,
        tags: Mapping[str, str] = _NOTHING,
    ) -> dg.ExecuteInProcessResult:
        """KeyboardInterrupt where somebody stopped this process, and not the run alone."""
        run_id = str(uuid.uuid4())
        if partition_key is not None:
            self._require_day(partition_key)
        with ends_with_its_run(self.instance, run_id):
            result = self.definitions.resolve_job_def(job).execute_in_process(
                partition_key=partition_key,
                instance=self.instance,
                raise_on_error=False,
                run_config={**_QUIET, **config},
                run_id=run_id,
                # No daemon runs it again: whoever started it knows how it ended.
                tags={**tags, **tag_of(run_id), "dagster/max_retries": "0"},
            )
        if not result.success:
            raise self._error(result, job)
        return result

    def _require_day(self, day: str) -> None:
        profile, days = self.deployment.profile, daily_partitions(self.deployment.profile)
        if not days.has_partition_key(day):
            last = days.get_last_partition_key() or "none"
            raise DataError(
                f"{day} is no day of {profile.name}: its days go from {profile.start_day} to {last}",
                remedy="name one of those, or change start_day in the profile",
            )

    def _error(self, result: dg.ExecuteInProcessResult, job: str) -> BaseException:
        """What to tell of a run that did not succeed."""
        run, remedy = f"run {result.run_id} of {job}", "mend that, then run it again; the UI has the run's log"
        if not _was_interrupted(result):
            kind = StorageError if _is_transient(result) else DataError
            return kind(f"{run} failed: {_reason(result)}", remedy=remedy)
        told = _why_over(self.instance, result.run_id)
        if told is None:
            return KeyboardInterrupt(f"{run} was interrupted")
        return DataError(f"{run} was stopped: {told}", remedy="run it again; what was finished of it is kept")


def redo_days(deployment: Deployment, instance: dg.DagsterInstance, days: Sequence[dt.date]) -> None:
    """Run each day's job once more; once all were tried, an error that names the days which failed: StorageError where
    trying again may help all of them, else DataError.
    """
    runs = Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)
    failed: dict[dt.date, DataError | StorageError] = {}
    for day in days:
        try:
            runs.score(day)
        except (DataError, StorageError) as error:
            failed[day] = error
    if failed:
        kind = StorageError if all(isinstance(error, StorageError) for error in failed.values()) else DataError
        told = "; ".join(f"{day}: {error.what}" for day, error in failed.items())
        raise kind(told, remedy="see these runs in the UI; what was published before still is")


@contextmanager
def session(deployment: Deployment) -> Iterator[Session]:
    """The deployment's jobs on the instance of DAGSTER_HOME or of the working folder."""
    with open_instance() as instance:
        end_dead_runs(instance)
        yield Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[StepFailureData]:
    return (event.step_failure_data for event in result.all_events if event.is_step_failure)


def _is_transient(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a step was given up that another try may bring through."""
    said = (failure.user_failure_data for failure in _failures(result))
    return any(TRANSIENT in data.metadata for data in said if data is not None)


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether the run was stopped from outside, in a step or between two; each leaves its own trace."""
    errors = [failure.error for failure in _failures(result)]
    is_stopped = any(error is not None and error.cls_name in _INTERRUPTS for error in errors)
    return is_stopped or (not errors and any(event.event_type_value in _OVER for event in result.all_events))


def _why_over(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """Who ended a run that was interrupted, in Dagster's words; None where it was this process that was."""
    for event in reversed(instance.all_logs(run_id)):
        told = event.dagster_event
        if told is None or told.event_type_value not in _OVER:
            continue
        if _UNASKED not in (told.message or ""):
            return told.message or "it was cancelled"
    return None


def _reason(result: dg.ExecuteInProcessResult) -> str:
    """The failure's own words, without Dagster's stack."""
    for failure in _failures(result):
        if failure.user_failure_data and failure.user_failure_data.description:
            return failure.user_failure_data.description
        error = failure.error.cause or failure.error if failure.error else None
        return (error.message.strip() or error.cls_name or "no reason given") if error else "no reason given"
    return "no step failed; see its log"
