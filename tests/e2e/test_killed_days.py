"""A day that is killed anywhere and run again ends the same, and nobody ever saw half of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.storage.published import published_days

KILL_POINTS = (1, 2, 3, 5, 8, 13, 21, 26, 30, 34, 38, 42, 45, 48, 51, 54, 57, 60)


@pytest.fixture
def dying(fresh_world) -> Iterator[Callable[[int], int]]:
    """Runs a day that dies at its n-th commit; gives the wait status of the process."""
    day = fresh_world.days[-1]
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("dying_days.py"))],
        env={**os.environ, "PROFILE_DATA": str(fresh_world.deployment.root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:

        def die(kill_at: int) -> int:
            assert parent.stdin is not None
            assert parent.stdout is not None
            print(kill_at, day, file=parent.stdin, flush=True)
            return int(parent.stdout.readline())

        yield die
        parent.kill()


@pytest.mark.timeout(600)
def test_a_day_killed_at_any_commit_ends_the_same_when_run_again(demo_world, fresh_world, dying):
    layout, day = fresh_world.deployment.layout, fresh_world.days[-1]
    wanted = read_day(demo_world.deployment.layout, day).drop_columns(["published_at"])
    deaths = 0
    for kill_at in KILL_POINTS:
        status = dying(kill_at)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        deaths += 1
        # The day is whole or it is not there.
        if published_days(layout) or layout.offline_part(day).exists():
            assert read_day(layout, day).drop_columns(["published_at"]).equals(wanted)
    assert deaths > 10
    fresh_world.session.score(day)
    assert published_days(layout) == [day]
    assert read_day(layout, day).drop_columns(["published_at"]).equals(wanted)
