"""Whole days inside Dagster, in one process: land, split, score, gates, export.

Options: `root`, `profile`, `days`, and `warm`, the root of a small world whose day is run first, so that what is
imported on first use is imported before the clock runs. Facts: how often a network was loaded after that, and the
seconds of each step, summed over the days.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from pathlib import Path

import dagster as dg

from benchmarks.child import measured, read_job
from benchmarks.data import FIRST_DAY
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import load_deployment
from profile_assets.scoring.scorer import scorer_for


def main() -> None:
    """Run the days one after another."""
    job = read_job()
    days = [FIRST_DAY + dt.timedelta(days=offset) for offset in range(job.options["days"])]
    with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:
        _session(job.options["warm"], instance).score(FIRST_DAY)
        session = _session(job.options["root"], instance)
        loaded = scorer_for.cache_info().misses
        with measured() as facts:
            for day in days:
                session.score(day)
            facts["loads"] = scorer_for.cache_info().misses - loaded
            facts["steps"] = _steps(instance, len(days))


def _session(root: str, instance: dg.DagsterInstance) -> Session:
    deployment = load_deployment(Path(root) / "profile.toml", environment={"PROFILE_DATA": root})
    return Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)


def _steps(instance: dg.DagsterInstance, newest: int) -> dict[str, float]:
    """Seconds by step, over the newest runs."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for run in instance.get_runs(limit=newest):
        for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS):
            event = entry.get_dagster_event()
            seconds[str(event.step_key)] += event.step_success_data.duration_ms / 1000
    return dict(seconds)


if __name__ == "__main__":
    main()
