"""Backfills from the UI's own door: a real `dagster dev` with its daemon, asked over GraphQL.

Thirty small days on SQLite, one of them bad; three days of the demo with its model on PostgreSQL; and a run that is
cancelled while its scoring processes work.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import Any

import psutil
import pytest

from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.read import read_day
from profile_assets.profile.loading import default_profile
from profile_assets.storage.published import published_days

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
FORKED = "run_launcher: {module: forked_runs, class: ForkedRuns}\n"
DAILY = ("raw_users", "user_shards", "user_scores", "feature_store_export")


def day_runs(ui: Any) -> dict[str, list[dict[str, Any]]]:
    """The runs of each day."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in ui.runs():
        if "dagster/partition" in run["tags"]:
            found.setdefault(run["tags"]["dagster/partition"], []).append(run)
    return found


@pytest.mark.timeout(900)
def test_thirty_days_on_sqlite_one_of_them_bad_and_then_only_what_failed(small_world: Any, dagster_dev: Any):
    home, layout = small_world.root, small_world.deployment.layout
    days = small_world.write_days(30)
    bad = days[12]
    small_world.source(bad).write_text("account,balance,country\n1,x,DE\n")
    ui = dagster_dev(home, more=FORKED, PROFILE_CONFIG=str(small_world.profile), PYTHONPATH=f"{HERE}:{ROOT}")
    first = ui.backfill(layout.name, DAILY, days)
    assert ui.end_of(first) == "COMPLETED_FAILED"
    assert published_days(layout) == [day for day in days if day != bad]
    assert {day: [run["status"] for run in runs] for day, runs in day_runs(ui).items()} == {
        str(day): ["FAILURE" if day == bad else "SUCCESS"] for day in days
    }
    small_world.write_day(bad)
    assert ui.end_of(ui.failed_and_missing_again(first)) == "COMPLETED_SUCCESS"
    runs = day_runs(ui)
    assert {day for day, of_day in runs.items() if len(of_day) > 1} == {str(bad)}
    assert runs[str(bad)][0]["status"] == "SUCCESS"
    assert published_days(layout) == days
    live = SqliteStore(layout).live()
    assert live is not None
    assert live.day == days[-1]
    starts = sorted((run["startTime"], run["endTime"]) for of_day in runs.values() for run in of_day)
    assert max(sum(start <= one < end for start, end in starts) for one, _ in starts) <= 2
    logs = [home / "dev.log", *(home / "data").rglob("*.err"), *(home / "data").rglob("*.out")]
    assert [path for path in logs if "database is locked" in path.read_text(errors="replace")] == []


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
    (run,) = day_runs(ui)[str(another)]
    ui.terminate(run["runId"])

    def status() -> str | None:
        (now,) = day_runs(ui)[str(another)]
        return now["status"] if now["status"] not in ("STARTED", "CANCELING") else None

    assert ui.wait_for("the end of the run", status, timeout_s=30) == "CANCELED"
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    (run,) = day_runs(ui)[str(another)]
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
