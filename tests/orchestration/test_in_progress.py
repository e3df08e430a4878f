"""Runs that have no process any more are ended by whoever comes next; those that have one are left alone."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import dagster as dg
import pytest

from profile_assets.orchestration.in_progress import (
    PROCESS_TAG,
    days_in_progress,
    end_dead_runs,
    is_dead,
    is_gone,
    sign,
    this_process,
)
from profile_assets.orchestration.launcher import WatchedRuns


@dg.op(pool="gpu")
def nothing() -> None: ...


@dg.job
def job() -> None:
    nothing()


@pytest.fixture
def instance(tmp_path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def run_of(instance: dg.DagsterInstance, process: str | None, status=dg.DagsterRunStatus.STARTED, **tags: str) -> str:
    run_id = str(uuid.uuid4())
    tags = tags if process is None else {**tags, PROCESS_TAG: f"{run_id[:8]}-{process}"}
    return instance.create_run_for_job(job, run_id=run_id, tags=tags, status=status).run_id


def dead_process() -> str:
    """The name that a process had which has ended."""
    code = "from profile_assets.orchestration.in_progress import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_process_is_known_by_more_than_its_number():
    mine = this_process()
    assert not is_gone(mine)
    pid, began, boot, numbers, host = mine.split("-", 4)
    assert is_gone(f"{pid}-{int(began) + 1}-{boot}-{numbers}-{host}")  # the number was given away again
    assert is_gone(f"999999999-{began}-{boot}-{numbers}-{host}")
    assert is_gone(f"{pid}-{began}-another-{numbers}-{host}")  # the machine was started again
    assert not is_gone(f"999999999-{began}-{boot}-{numbers}-another machine")
    assert not is_gone(f"999999999-{began}-{boot}-of another container-{host}")
    assert not is_gone("4711-in an older form")
    assert is_gone(dead_process())
    assert len(f"00000000-{mine}") <= 63


def test_a_process_that_ended_and_is_not_waited_for_is_gone():
    code = "from profile_assets.orchestration.in_progress import this_process; print(this_process(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        process = child.stdout.read().strip()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(process)


def test_runs_without_a_process_are_failed_or_cancelled_and_give_their_slots_back(instance):
    instance.event_log_storage.set_concurrency_slots("gpu", 1)
    gone = dead_process()
    dead = run_of(instance, gone)
    cancelled = run_of(instance, gone, dg.DagsterRunStatus.CANCELING)
    alive, launched = run_of(instance, this_process()), run_of(instance, None)
    assert instance.event_log_storage.claim_concurrency_slot("gpu", dead, "nothing").is_claimed
    assert set(end_dead_runs(instance)) == {dead, cancelled}
    assert instance.get_run_by_id(dead).status == dg.DagsterRunStatus.FAILURE
    assert instance.get_run_by_id(cancelled).status == dg.DagsterRunStatus.CANCELED
    assert {instance.get_run_by_id(run).status for run in (alive, launched)} == {dg.DagsterRunStatus.STARTED}
    assert instance.event_log_storage.claim_concurrency_slot("gpu", alive, "nothing").is_claimed
    assert end_dead_runs(instance) == []


def test_a_run_that_was_started_again_with_the_tags_of_a_dead_one_is_not_dead(instance):
    """As the UI and automatic retries do: the new run is of another process, which has not signed it yet."""
    dead = instance.get_run_by_id(run_of(instance, dead_process()))
    again = instance.create_run_for_job(job, tags=dead.tags, status=dg.DagsterRunStatus.STARTED)
    assert (is_dead(dead), is_dead(again)) == (True, False)
    assert end_dead_runs(instance) == [dead.run_id]
    sign(instance, again)
    signed = instance.get_run_by_id(again.run_id)
    assert signed.tags[PROCESS_TAG] == f"{again.run_id[:8]}-{this_process()}"
    assert not is_dead(signed)


def test_the_run_monitor_is_told_which_runs_are_dead(instance):
    launcher = WatchedRuns()
    dead, alive, unsigned = (
        launcher.check_run_worker_health(instance.get_run_by_id(run_of(instance, process)))
        for process in (dead_process(), this_process(), None)
    )
    assert [found.status.value for found in (dead, alive, unsigned)] == ["FAILED", "RUNNING", "RUNNING"]
    assert "is gone" in dead.msg


def test_the_days_that_runs_work_on(instance):
    run = run_of(instance, None, dg.DagsterRunStatus.STARTING, **{"dagster/partition": "2026-01-05"})
    run_of(instance, None, dg.DagsterRunStatus.SUCCESS, **{"dagster/partition": "2026-01-06"})
    run_of(instance, None, **{"dagster/partition": "Europe"})
    assert days_in_progress(instance) == {dt.date(2026, 1, 5): run[:8]}
