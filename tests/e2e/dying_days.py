"""A process that runs days which die.

For each line `N DAY` on stdin it forks a child that kills itself at the N-th rename or fsync of that day, and answers
with the child's wait status. Everything slow is imported once, before the first fork; nothing is run in the parent,
so that it has no threads a child could miss.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

warnings.simplefilter("ignore")

import dagster as dg  # noqa: E402
import great_expectations  # noqa: E402, F401
import pandas  # noqa: E402, F401

import profile_assets.feature_store.publish  # noqa: E402
import profile_assets.models.bundle  # noqa: E402
import profile_assets.scoring.day  # noqa: E402
import profile_assets.users.land  # noqa: E402, F401
from profile_assets.orchestration.build import build_definitions  # noqa: E402
from profile_assets.orchestration.launch import Session  # noqa: E402
from profile_assets.profile import load_deployment  # noqa: E402


def killing(call: Callable[..., Any], countdown: list[int]) -> Callable[..., Any]:
    """The call, but for the one at which the countdown ends: there the process is gone before it begins."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)

    return wrapped


def run(kill_at: int, day: dt.date) -> None:
    deployment = load_deployment()
    with dg.DagsterInstance.ephemeral() as instance:
        session = Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)
        countdown = [kill_at]
        os.replace, os.fsync = killing(os.replace, countdown), killing(os.fsync, countdown)
        session.score(day)


def main() -> None:
    for line in sys.stdin:
        kill_at, day = line.split()
        child = os.fork()
        if child == 0:
            try:
                run(int(kill_at), dt.date.fromisoformat(day))
                os._exit(0)
            finally:  # no way out of the child but this one: it must never read the parent's stdin
                traceback.print_exc()
                os._exit(1)
        print(os.waitpid(child, 0)[1], flush=True)


main()
