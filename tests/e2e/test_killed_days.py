"""A day that is killed anywhere and run again ends the same, and nobody ever saw half of it.

The child runs the stages of a day without Dagster and kills itself at the n-th rename or fsync; the parent looks at
what is published, runs the day to its end and compares it with a day that was never disturbed.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.storage.published import published_days

CHILD = """
import os, signal, sys
from pathlib import Path

countdown = int(sys.argv[1])

def killing(call):
    def wrapped(*args, **kwargs):
        global countdown
        countdown -= 1
        if countdown == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return wrapped

import dagster as dg
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import load_deployment

deployment = load_deployment()
with dg.DagsterInstance.ephemeral() as instance:
    session = Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)
    os.replace, os.fsync = killing(os.replace), killing(os.fsync)
    import datetime as dt
    session.score(dt.date.fromisoformat(sys.argv[2]))
print("calls left", countdown)
"""


def run_child(root: Path, day: dt.date, kill_at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(kill_at), str(day)],
        env={**os.environ, "PROFILE_DATA": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(600)
def test_a_day_killed_at_any_commit_ends_the_same_when_run_again(demo_world, fresh_world):
    layout, day = fresh_world.deployment.layout, fresh_world.days[-1]
    wanted = read_day(demo_world.deployment.layout, day).drop_columns(["published_at"])
    deaths = 0
    for kill_at in (1, 3, 8, 21, 34, 45, 55):
        child = run_child(layout.root, day, kill_at)
        if child.returncode != -signal.SIGKILL:
            assert child.returncode == 0, child.stderr
            break
        deaths += 1
        # The day is whole or it is not there.
        if day in published_days(layout) or layout.offline_part(day).exists():
            assert read_day(layout, day).drop_columns(["published_at"]).equals(wanted)
    assert deaths >= 3
    fresh_world.session.score(day)
    assert published_days(layout) == [day]
    assert read_day(layout, day).drop_columns(["published_at"]).equals(wanted)
