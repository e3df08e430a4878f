"""What becomes of runs that the daemon launched and that do not end by themselves; and of days that run twice at once.

One real `dagster dev` on the default SQLite storage, one day for each story. Runs are held where a test wants them by
a lock that the test holds.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.orchestration.in_progress import PROCESS_TAG, is_gone
from profile_assets.storage.atomic import locked
from profile_assets.storage.holders import holder
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, Layout
from profile_assets.storage.published import published_days

ROOT = Path(__file__).parents[2]
QUICK = "run_monitoring: {enabled: true, poll_interval_seconds: 1, free_slots_after_run_end_seconds: 1}\n"
OVER = ("SUCCESS", "FAILURE", "CANCELED")
POOLED, CANCELLED, TWICE, SLOW, WRONG, BOTH = range(6)
"""The days of the stories, as places in the world's list."""

pytestmark = pytest.mark.timeout(600)


@dataclass(kw_only=True)
class Stage:
    """A small world below a `dagster dev`, whose instance the test opens too."""

    world: Any
    ui: Any
    start: Callable[[], Any]

    @property
    def layout(self) -> Layout:
        return self.world.deployment.layout

    @property
    def environment(self) -> dict[str, str]:
        return {"PROFILE_DATA": str(self.world.root), "PROFILE_CONFIG": str(self.world.profile)}

    def day(self, story: int) -> dt.date:
        return self.world.days[story]

    @contextlib.contextmanager
    def held(self, story: int, stage: str = RAW_USERS) -> Iterator[None]:
        """No run comes past a stage of the day."""
        with locked(self.layout.day_lock(stage, self.day(story)), what="the test's"):
            yield

    def launch(self, story: int, **tags: str) -> str:
        return self.ui.launch(f"{self.layout.name}_day", self.day(story), **tags)

    def wait_for(self, what: str, ask: Callable[[], Any]) -> Any:
        return self.ui.wait_for(what, ask, timeout_s=120.0)

    def process_of(self, run_id: str) -> str:
        """The process of a run, once it works on a step."""

        def signed() -> str | None:
            run = self.ui.run(run_id)
            assert run["status"] not in OVER, run
            mark, _, process = run["tags"].get(PROCESS_TAG, "").partition("-")
            return process if mark == run_id[:8] else None

        return str(self.wait_for("a step of the run", signed))

    def end_of(self, run_id: str) -> dict[str, Any]:
        def over() -> dict[str, Any] | None:
            run = self.ui.run(run_id)
            return run if run["status"] in OVER else None

        return dict(self.wait_for("the end of the run", over))

    def retry_of(self, run_id: str) -> str:
        """The run that the daemon started because this one died."""

        def retried() -> str | None:
            return self.ui.run(run_id)["tags"].get("dagster/auto_retry_run_id")

        return str(self.wait_for("an automatic retry", retried))

    def run_of(self, story: int) -> str | None:
        """The newest run of a day."""
        runs = self.ui.day_runs().get(str(self.day(story)))
        return runs[0]["runId"] if runs else None

    def history(self, story: int) -> list[tuple[str, str | None, str | None]]:
        """The runs of a day, oldest first: how each ended, its number as a retry, whether Dagster would retry it."""
        runs = self.ui.day_runs()[str(self.day(story))]
        tags = ("dagster/retry_number", "dagster/will_retry")
        return [(run["status"], *(run["tags"].get(tag) for tag in tags)) for run in reversed(runs)]

    def holder_and_waiting(self) -> tuple[str, str] | None:
        """The run that holds the place of the pool, and the one that waits for it."""
        held, waits = self.ui.pool("gpu")
        return (held[0], waits[0]) if held and waits else None

    @contextlib.contextmanager
    def typed(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command of ours in the folder of the `dagster dev`."""
        with subprocess.Popen(
            [sys.executable, "-m", "profile_assets.cli", *arguments],
            cwd=self.world.root,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as command:
            yield command

    def is_one_runs(self, story: int) -> None:
        """The published day is whole: rows, digests and record agree, from disk."""
        assert self.day(story) in published_days(self.layout)
        with self.typed("verify", str(self.day(story))) as command:
            told, _ = command.communicate(timeout=120)
        assert command.returncode == 0, told


def kill(process: str, number: int = signal.SIGKILL) -> None:
    os.kill(int(process.partition("-")[0]), number)


@pytest.fixture(scope="module")
def stage(new_small_world: Any, dagster_dev_for_all: Any, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    world = new_small_world(tmp_path_factory.mktemp("monitor"))
    world.profile.write_text(world.profile.read_text().replace('device = "cpu"', 'device = "auto"'))
    world.write_days(6)
    named = {"PROFILE_CONFIG": str(world.profile), "PYTHONPATH": str(ROOT)}

    def start() -> Any:
        return dagster_dev_for_all.start(world.root, more=QUICK, **named)

    return Stage(world=world, ui=start(), start=start)


def test_a_run_that_waits_for_the_pool_hears_a_cancel_and_one_that_dies_in_it_gives_its_place_back(stage):
    days = {stage.launch(story): story for story in (POOLED, CANCELLED)}
    with stage.held(POOLED, USER_SCORES), stage.held(CANCELLED, USER_SCORES):
        for of in days:
            stage.process_of(of)
        first, waiting = stage.wait_for("one to wait for the other", stage.holder_and_waiting)
        process, of_waiting = stage.process_of(first), stage.process_of(waiting)
        stage.ui.terminate(waiting)
        assert stage.end_of(waiting)["status"] == "CANCELED"
        stage.wait_for("the end of its process", lambda: is_gone(of_waiting) or None)
        assert stage.ui.pool("gpu") == ([first], [])
        kill(process)
        assert stage.end_of(first)["status"] == "FAILURE"
        again = stage.retry_of(first)
    assert stage.end_of(again)["status"] == "SUCCESS"
    assert stage.ui.pool("gpu") == ([], [])
    stage.is_one_runs(days[first])
    assert published_days(stage.layout) == [stage.day(days[first])]
    assert stage.history(days[waiting]) == [("CANCELED", None, None)]
    assert stage.history(days[first]) == [("FAILURE", None, "true"), ("SUCCESS", "1", None)]


def test_a_run_that_died_with_the_machine_is_started_again_and_if_it_dies_once_more_it_is_not(stage):
    with stage.held(TWICE):
        first = stage.launch(TWICE)
        process = stage.process_of(first)
        stage.ui.kill()
        stage.wait_for("the end of its process", lambda: is_gone(process) or None)
        stage.ui = stage.start()
        assert stage.end_of(first)["status"] == "FAILURE"
        again = stage.retry_of(first)
        kill(stage.process_of(again))
        stage.end_of(again)
    assert stage.history(TWICE) == [("FAILURE", None, "true"), ("FAILURE", "1", "false")]


def test_a_run_past_its_time_is_ended_and_started_again_once_and_a_day_that_is_wrong_never(stage):
    stage.world.source(stage.day(WRONG)).write_text("account,balance,country\n1,x,DE\n")
    with stage.held(SLOW):
        first, wrong = stage.launch(SLOW, **{"dagster/max_runtime": "4"}), stage.launch(WRONG)
        process = stage.process_of(first)
        again = stage.retry_of(first)
        of_again = stage.process_of(again)
        stage.wait_for("the end of its process", lambda: is_gone(process) or None)
        stage.end_of(again)
        stage.wait_for("the end of the other's", lambda: is_gone(of_again) or None)
        stage.end_of(wrong)
    (status, *rest), (status_again, *rest_again) = stage.history(SLOW)
    assert (rest, rest_again) == ([None, "true"], ["1", "false"])
    # The monitor says that a run failed; the run itself may say after that, for it was told so, that it was cancelled.
    assert {status, status_again} <= {"FAILURE", "CANCELED"}
    assert stage.history(WRONG) == [("FAILURE", None, "false")]
    assert not {stage.day(SLOW), stage.day(WRONG)} & set(published_days(stage.layout))


def test_a_day_from_the_command_line_and_the_queue_at_once(stage):
    """The queue waits for a run that was typed in, until that is over or dead. Who types it in meanwhile, waits too."""
    day = str(stage.day(BOTH))
    with stage.held(BOTH), stage.typed("backfill", day, day) as command:
        typed = stage.wait_for("its run", lambda: stage.run_of(BOTH))
        stage.process_of(typed)
        queued = stage.launch(BOTH)
        command.kill()
        command.communicate()
        process = stage.process_of(queued)
    assert stage.ui.run(typed)["endTime"] <= stage.ui.run(queued)["startTime"]
    lock, pid = stage.layout.day_lock(RAW_USERS, stage.day(BOTH)), process.partition("-")[0]
    stage.wait_for("the run's lock", lambda: stopped_with(lock, process))
    stage.world.write_day(stage.day(BOTH), rows=220)  # whoever comes later reads other rows
    with stage.typed("backfill", day, day) as command:
        assert command.stdout is not None
        told = next(line for line in command.stdout if "is held by" in line)
        assert f"raw_users of {day} is held by process {pid}; waiting up to 600 s" in told
        kill(process, signal.SIGCONT)
        more, _ = command.communicate(timeout=120)
    assert command.returncode == 0, more
    assert stage.end_of(queued)["status"] == "SUCCESS"
    assert [status for status, _, _ in stage.history(BOTH)] == ["FAILURE", "SUCCESS", "SUCCESS"]
    stage.is_one_runs(BOTH)
    assert read_day(stage.layout, stage.day(BOTH)).num_rows == 220


def stopped_with(lock: Path, process: str) -> bool | None:
    """Stop the process (as Ctrl-Z does) while it holds the lock; None, and it goes on, where it does not."""
    pid = int(process.partition("-")[0])
    kill(process, signal.SIGSTOP)
    found = holder(lock)
    if found is not None and found.pid == pid:
        return True
    kill(process, signal.SIGCONT)
    return None
