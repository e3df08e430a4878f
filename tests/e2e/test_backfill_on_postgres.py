"""Three days of the demo with everything selected, on PostgreSQL; and a run cancelled as its scoring begins."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import Any

import psutil
import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.profile.loading import default_profile
from profile_assets.storage.published import published_days

DAILY = ("raw_users", "user_shards", "user_scores", "feature_store_export")


@pytest.mark.service("postgres")
@pytest.mark.timeout(900)
def test_three_days_with_everything_selected_on_postgres_and_a_run_that_is_cancelled(
    fresh_world: Any, dagster_dev: Any, postgres: str, tmp_path: Path
):
    """One run a day, and one for the model. Then a day is cancelled as its scoring processes start."""
    layout, days = fresh_world.deployment.layout, fresh_world.days
    profile = tmp_path / "with_workers.toml"
    profile.write_text(default_profile().read_text() + "\n[scoring]\nworkers = 2\n")
    url = postgres.replace("postgresql://", "postgresql+psycopg2://")
    ui = dagster_dev(
        layout.root, instance="deploy/dagster-postgres.yaml", DAGSTER_PG_URL=url, PROFILE_CONFIG=str(profile)
    )
    assert ui.end_of(ui.backfill(layout.name, (*DAILY, "model_bundle"), days)) == "COMPLETED_SUCCESS"
    runs = ui.runs()
    partitions = sorted(run["tags"]["dagster/partition"] for run in runs if "dagster/partition" in run["tags"])
    assert partitions == [str(day) for day in days]
    assert len(runs) == len(days) + 1, [(run["jobName"], run["status"]) for run in runs]
    assert {run["status"] for run in runs} == {"SUCCESS"}
    assert published_days(layout) == days
    assert [read_day(layout, day).num_rows for day in days] == [23_570] * 3

    another = days[0] - dt.timedelta(days=1)
    ui.backfill(layout.name, DAILY, [another])
    workers = ui.wait_for("scoring processes", lambda: scoring_processes(home=layout.root) or None)
    (run,) = ui.day_runs()[str(another)]
    ui.terminate(run["runId"])

    def status() -> str | None:
        (now,) = ui.day_runs()[str(another)]
        return now["status"] if now["status"] not in ("STARTED", "CANCELING") else None

    assert ui.wait_for("the end of the run", status, timeout_s=30) == "CANCELED"
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    (run,) = ui.day_runs()[str(another)]
    assert run["tags"].get("dagster/will_retry") != "true"
    assert another not in published_days(layout)


def scoring_processes(*, home: Path) -> list[psutil.Process]:
    """The scoring processes of runs that work on that folder."""
    found = []
    for process in psutil.process_iter(["environ"]):
        with contextlib.suppress(psutil.Error):  # it ended while it was looked at
            environment, parent = process.info["environ"] or {}, process.parent()
            # The run is itself a spawned process, of the code server.
            if environment.get("PROFILE_DATA") == str(home) and parent and is_spawned(parent) and is_spawned(process):
                found.append(process)
    return found


def is_spawned(process: psutil.Process) -> bool:
    return any("multiprocessing.spawn" in word for word in process.cmdline())
