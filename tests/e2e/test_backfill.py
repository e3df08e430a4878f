"""Thirty small days through the daemon on the default SQLite storage, as the UI launches them; one of them is bad.

The same days from the command line, out of order, are in the tests of stopped commands and of the page for when
something breaks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.storage.published import published_days

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
FORKED = "run_launcher: {module: forked_runs, class: ForkedRuns}\n"
DAILY = ("raw_users", "user_shards", "user_scores", "feature_store_export")


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
    assert {day: [run["status"] for run in runs] for day, runs in ui.day_runs().items()} == {
        str(day): ["FAILURE" if day == bad else "SUCCESS"] for day in days
    }
    small_world.write_day(bad)
    assert ui.end_of(ui.failed_and_missing_again(first)) == "COMPLETED_SUCCESS"
    runs = ui.day_runs()
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
