"""Runs started from the command line: through Dagster, recorded on its instance, but in this one process.

The instance is DAGSTER_HOME's, or that of a dagster.yaml in the working folder, which is what `dagster dev` uses too.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from profile_assets.errors import DataError, ProfileError, StorageError
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.keys import (
    PUBLISHED,
    day_job_name,
    freshness_job_name,
    reconcile_job_name,
    replace_job_name,
    train_job_name,
)
from profile_assets.orchestration.reconcile import CHECK as RECONCILED
from profile_assets.profile import Deployment

# Dagster's own log goes to the instance, where the UI shows it; the terminal has a progress bar instead.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class Session:
    """One deployment's jobs on one instance."""

    deployment: Deployment
    definitions: dg.Definitions
    instance: dg.DagsterInstance

    def score(self, day: dt.date) -> None:
        """Run the day's job. DataError with what stopped it, or StorageError after retries."""
        self._run(day_job_name(self.deployment), partition_key=day.isoformat())

    def train(self) -> str:
        """Run the training job; gives the id of its bundle. DataError with what stopped it."""
        result = self._run(train_job_name(self.deployment), partition_key=None)
        (made,) = (event.materialization for event in result.get_asset_materialization_events())
        return str(made.metadata["bundle_id"].value)

    def judge_freshness(self) -> None:
        """Run the freshness check. DataError with what stopped it; a stale table is a result, not an error."""
        self._run(freshness_job_name(self.deployment), partition_key=None)

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
        self, job: str, *, partition_key: str | None, config: Mapping[str, Any] = _NOTHING
    ) -> dg.ExecuteInProcessResult:
        result = self.definitions.resolve_job_def(job).execute_in_process(
            partition_key=partition_key, instance=self.instance, raise_on_error=False, run_config={**_QUIET, **config}
        )
        if not result.success:
            kind = StorageError if _was_retried(result) else DataError
            what = f"run {result.run_id} of {job} failed: {_reason(result)}"
            raise kind(what, remedy="mend that, then run it again; the UI has the run's log")
        return result


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
    with _instance() as instance:
        yield Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    home = Path(os.environ.get("DAGSTER_HOME") or Path.cwd())
    if not (home / "dagster.yaml").exists():
        raise ProfileError(
            f"there is no dagster.yaml in {home}", remedy="go to the folder that has one, or set DAGSTER_HOME to it"
        )
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def _was_retried(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a step was tried again, which only transient errors are."""
    return any(event.is_step_restarted for event in result.all_events)


def _reason(result: dg.ExecuteInProcessResult) -> str:
    """The failure's own words, without Dagster's stack."""
    for event in result.all_events:
        if event.is_step_failure:
            failure = event.step_failure_data
            if failure.user_failure_data and failure.user_failure_data.description:
                return failure.user_failure_data.description
            error = failure.error.cause or failure.error if failure.error else None
            return error.message.strip() if error else "no reason given"
    return "no step failed; see its log"
