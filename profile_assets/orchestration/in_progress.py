"""Runs that are going on, or seem to be: which days they work on, and which of them have no process any more.

Every run carries the process that works on it as a tag: from its start, or from its first step where the daemon
launched it. Where that process is gone, the run monitor ends the run, or whoever starts next on this machine, and with
it its place in the queue and in its pools.
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
_HOST_CHARACTERS = 20  # the whole tag is then no longer than the 63 that some systems allow
_DIGITS = 8


def days_in_progress(instance: dg.DagsterInstance) -> dict[dt.date, str]:
    """The days that runs of any profile work on, or will, with the first digits of the run's id."""
    found: dict[dt.date, str] = {}
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=list(GOING_ON))):
        with contextlib.suppress(ValueError):  # a partition of somebody else's, which is no day
            found[dt.date.fromisoformat(run.tags.get(PARTITION_TAG, ""))] = run.run_id[:8]
    return found


def this_process() -> str:
    """This process as no other process was or will be: number, when it began, and where such numbers count."""
    return f"{os.getpid()}-{_began(os.getpid())}-{_boot()}-{_numbers()}-{_host()}"


def tag_of(run_id: str) -> dict[str, str]:
    """The tag that says that this process works on the run. It names the run too: who runs that again, in the UI or by
    an automatic retry, runs it with the same tags and in another process.
    """
    return {PROCESS_TAG: f"{run_id[:_DIGITS]}-{this_process()}"}


def sign(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Tag a run that this process works on, unless it is."""
    tag = tag_of(run.run_id)
    if run.tags.get(PROCESS_TAG) != tag[PROCESS_TAG]:
        instance.add_run_tags(run.run_id, tag)


def is_dead(run: dg.DagsterRun) -> bool:
    """Whether the process that worked on the run is gone. A run that nobody signed is not known to be dead."""
    signed, _, process = run.tags.get(PROCESS_TAG, "").partition("-")
    return signed == run.run_id[:_DIGITS] and is_gone(process)


def is_gone(process: str) -> bool:
    """Whether a process that `this_process` named has ended. One of another machine is not known to have, nor one of
    another container of this machine, which may well go by the same name.
    """
    pid, began, boot, numbers, host = [*process.split("-", 4), "", "", "", ""][:5]
    if host != _host() or not pid.isdigit():
        return False
    if boot != _boot():
        return True  # the machine has been started again since
    return numbers == _numbers() and _began(int(pid)) != began


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Fail the runs whose process on this machine is gone, and free what they held; gives their ids."""
    ended = []
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=[*GOING_ON[1:]])):
        if not is_dead(run):
            continue
        told = dead(run)
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, told)
        else:
            instance.report_run_failed(run, told)
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        ended.append(run.run_id)
    return ended


def dead(run: dg.DagsterRun) -> str:
    """What to say of a run that is dead."""
    process = run.tags[PROCESS_TAG].partition("-")[2]
    return f"The process of this run ({process}) is gone: it was killed, or its machine was started again."


def _host() -> str:
    return platform.node()[:_HOST_CHARACTERS] or "unnamed"


def _boot() -> str:
    """Some digits of what the system calls its run since it was started; "" where it has no name for it."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:4]
    return ""


def _numbers() -> str:
    """Among which processes a number means this one: each container may count its own. "" where there is no telling."""
    with contextlib.suppress(OSError):
        return f"{Path('/proc/self/ns/pid').stat().st_ino:x}"
    return ""


def _began(pid: int) -> str:
    """When a process began, as its system counts; "" where there is none. Where it cannot be told, "running"."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() or not is_running(pid) else "running"
    state, began = fields[0], fields[19]
    return "" if state in ("Z", "X") else began  # a zombie runs nothing any more
