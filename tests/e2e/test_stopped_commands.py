"""Commands that are stopped: by Ctrl-C, by a kill, from the UI; and what the next one finds."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from profile_assets.errors import DataError
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import load_deployment
from profile_assets.storage.atomic import locked
from profile_assets.storage.layout import RAW_USERS
from profile_assets.storage.published import published_days

ROOT = Path(__file__).parents[2]


@pytest.fixture
def days(small_world) -> list[dt.date]:
    (small_world.root / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (small_world.root / "data").mkdir()
    return small_world.write_days(3)


@pytest.fixture
def instance(small_world, days, monkeypatch) -> Iterator[dg.DagsterInstance]:
    """The instance of the small world's folder, as the command line opens it."""
    assert days
    monkeypatch.chdir(small_world.root)
    with dg.DagsterInstance.from_config(str(small_world.root)) as opened:
        yield opened


def started(world, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "profile_assets.cli", *arguments],
        cwd=world.root,
        env={**os.environ, "PROFILE_DATA": str(world.root), "PROFILE_CONFIG": str(world.profile)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def run_of(instance: dg.DagsterInstance, day: dt.date) -> dg.DagsterRun:
    """The first run of a day, once its step works on it."""
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up:
        runs = instance.get_runs(filters=dg.RunsFilter(tags={"dagster/partition": str(day)}))
        if runs and any(
            log.dagster_event and log.dagster_event.is_step_start for log in instance.all_logs(runs[0].run_id)
        ):
            return runs[0]
        time.sleep(0.2)
    raise AssertionError(f"no run of {day} began")


def test_ctrl_c_stops_the_whole_backfill_and_it_goes_on_where_it_stopped(small_world, instance, days):
    layout = small_world.deployment.layout
    with (
        locked(layout.day_lock(RAW_USERS, days[0]), what="it"),
        started(small_world, "backfill", str(days[0]), str(days[2])) as command,
    ):
        run = run_of(instance, days[0])
        command.send_signal(signal.SIGINT)
        told, _ = command.communicate(timeout=30)
    assert command.returncode not in (0, None)
    assert f"interrupted while scoring {days[0]}" in told
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE
    assert instance.get_runs_count() == 1
    assert published_days(layout) == []


def test_a_command_that_was_killed_leaves_no_run_in_the_way(small_world, instance, days):
    layout = small_world.deployment.layout
    with (
        locked(layout.day_lock(RAW_USERS, days[0]), what="it"),
        started(small_world, "backfill", str(days[0]), str(days[0])) as command,
    ):
        run = run_of(instance, days[0])
        command.kill()
        command.communicate()
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.STARTED
    with started(small_world, "backfill", str(days[0]), str(days[0])) as command:
        told, _ = command.communicate(timeout=300)
    assert command.returncode == 0, told
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE
    assert published_days(layout) == [days[0]]


def test_a_run_of_the_command_line_that_is_cancelled_in_the_ui_stops_and_stays_cancelled(small_world, instance, days):
    layout = small_world.deployment.layout
    with (
        locked(layout.day_lock(RAW_USERS, days[0]), what="it"),
        started(small_world, "backfill", str(days[0]), str(days[1])) as command,
    ):
        run = run_of(instance, days[0])
        instance.report_run_canceled(run)  # "force termination" of the UI: nobody tells the process
        told, _ = command.communicate(timeout=300)
    assert "was stopped" in told
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.CANCELED
    assert published_days(layout) == [days[1]]


def test_a_cancel_is_heard_while_a_run_waits_to_try_again(small_world, instance, days, monkeypatch):
    """Ten minutes between two tries must not be sat out."""
    profile = small_world.root / "waits.toml"
    profile.write_text(small_world.profile.read_text() + "\n[retries]\nwaits_s = [600]\n")
    deployment = load_deployment(profile, environment={"PROFILE_DATA": str(small_world.root)})
    session = Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)

    def away(*_: object) -> None:
        from profile_assets.errors import StorageError

        run = run_of(instance, days[0])
        instance.report_run_canceled(run)
        raise StorageError("the disk is away", remedy="wait")

    monkeypatch.setattr("profile_assets.users.land.land", away)
    with pytest.raises(DataError, match="was stopped"):
        session.score(days[0])
    (run,) = instance.get_runs()
    assert run.status == dg.DagsterRunStatus.CANCELED
