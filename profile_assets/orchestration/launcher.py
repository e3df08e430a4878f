"""Dagster's own launcher of runs, which can also tell the run monitor that the process of a run is gone.

Without it only the code server that started a run notices its death. Where both die at once, as when the machine is
started again, the run would be "started" for four hours more, and so would one that was started from the command line:
their days, and their places in the queue, would be taken that long.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus  # what a launcher answers; no public names

from profile_assets.orchestration.in_progress import dead, is_dead


class WatchedRuns(dg.DefaultRunLauncher):
    """Named in dagster.yaml under `run_launcher`."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        if is_dead(run):
            return CheckRunHealthResult(WorkerStatus.FAILED, dead(run))
        return CheckRunHealthResult(WorkerStatus.RUNNING)
