"""Runs that are going on, or seem to be: which days they work on, and which of them have no process any more.

Dagster's monitor looks after the runs that its daemon launched. A run started from the command line carries the
process that is running it as a tag; where that process is gone, whoever starts next on this machine ends the run, and
with it its place in the queue and in its pools.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import platform
from pathlib import Path

import dagster as dg

from profile_assets.storage.holders import is_running

PARTITION_TAG = "dagster/partition"
PROCESS_TAG = "profile_assets/process"
GOING_ON = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
_HOST_CHARACTERS = 30


def days_in_progress(instance: dg.DagsterInstance) -> dict[dt.date, str]:
    """The days that runs of any profile work on, or will, with the first digits of the run's id."""
    found: dict[dt.date, str] = {}
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=list(GOING_ON))):
        with contextlib.suppress(ValueError):  # a partition of somebody else's, which is no day
            found[dt.date.fromisoformat(run.tags.get(PARTITION_TAG, ""))] = run.run_id[:8]
    return found


def this_process() -> str:
    """This process as no other process was or will be: number, when it began, and the machine."""
    return f"{os.getpid()}-{_began(os.getpid())}-{_host()}"


def is_gone(process: str) -> bool:
    """Whether a process that `this_process` named has ended. One of another machine is not known to have."""
    pid, _, rest = process.partition("-")
    began, _, host = rest.partition("-")
    return host == _host() and pid.isdigit() and _began(int(pid)) != began


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Fail the runs whose process on this machine is gone, and free what they held; gives their ids."""
    ended = []
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=[*GOING_ON[1:]])):
        process = run.tags.get(PROCESS_TAG)
        if process is None or not is_gone(process):
            continue
        told = f"The process of this run ({process}) is gone: it was killed, or its machine was started again."
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, told)
        else:
            instance.report_run_failed(run, told)
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        ended.append(run.run_id)
    return ended


def _host() -> str:
    return platform.node()[:_HOST_CHARACTERS] or "unnamed"


def _began(pid: int) -> str:
    """When a process began, as its system counts; "" where there is none. Where it cannot be told, "running"."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() or not is_running(pid) else "running"
    state, began = fields[0], fields[19]
    return "" if state in ("Z", "X") else began  # a zombie runs nothing any more
