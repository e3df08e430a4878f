"""Days wait for their source, start once when it is there, and are told of once when they are due without it."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from profile_assets.orchestration.source_ready import SOURCE_TAG, night
from profile_assets.orchestration.waiting import Memory, look, newly_late
from profile_assets.profile import Deployment, load_deployment
from profile_assets.quality.freshness import ONE_DAY, due_at

DAY = dt.date(2026, 3, 28)  # it ends in the night in which Berlin's clocks skip an hour
PROFILE = """
name = "risk"
time_zone = "Europe/Berlin"
start_day = 2026-03-20
[source]
SOURCE
ready = "READY"
[contract]
id = "account"
[[contract.columns]]
name = "balance"
type = "float64"
[model]
features = [{ name = "balance" }]
"""


FILES = 'path = "in/{day}"\nformat = "csv"'
QUERY = 'query = "select * from accounts where day = :day"\nurl_env = "RISK_DB"'


def at(day: dt.date, hour: float) -> dt.datetime:
    return dt.datetime.combine(day + ONE_DAY, dt.time(), dt.UTC) + dt.timedelta(hours=hour)


@pytest.fixture
def deployed(tmp_path: Path) -> Callable[..., Deployment]:
    def load(ready: str, source: str = FILES) -> Deployment:
        path = tmp_path / "p.toml"
        path.write_text(PROFILE.replace("READY", ready).replace("SOURCE", source))
        return load_deployment(path, environment={"PROFILE_DATA": str(tmp_path)})

    return load


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dt.date, int], None]:
    """Write so many more rows of a day into the table that QUERY reads."""
    path = tmp_path / "risk.db"
    monkeypatch.setenv("RISK_DB", f"sqlite:///{path}")

    def write(day: dt.date, count: int) -> None:
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("create table if not exists accounts (account integer primary key, day, balance)")
            database.executemany("insert into accounts (day, balance) values (?, 1.5)", [(str(day),)] * count)

    return write


def deliver(deployment: Deployment, day: dt.date, *names: str, when: dt.datetime) -> None:
    folder = deployment.root / "in" / str(day)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("account,balance\n1,2\n")
        os.utime(folder / name, (when.timestamp(), when.timestamp()))


def waits(deployment: Deployment, now: dt.datetime, memory: Memory) -> tuple[dict[dt.date, str | None], Memory, list]:
    found, after = look(deployment.layout, deployment.due_rule, deployment.source, now, memory)
    return {one.day: one.waits_for for one in found}, after, [one.day for one in newly_late(found, memory)]


def test_a_day_may_start_at_its_hour_and_not_before(deployed) -> None:
    """02:00 in Berlin is not there that night: the clock skips it. It is taken as 03:00, 01:00 UTC."""
    deployment = deployed("_SUCCESS")
    deliver(deployment, DAY, "a.csv", "_SUCCESS", when=at(DAY, 0))
    assert DAY not in waits(deployment, at(DAY, 0.99), Memory())[0]
    assert waits(deployment, at(DAY, 1), Memory())[0][DAY] is None


def test_a_day_waits_for_its_marker_until_it_is_due_and_is_then_told_of_once(deployed) -> None:
    deployment, memory, told = deployed("_SUCCESS"), Memory(), []
    deliver(deployment, DAY, "a.csv", when=at(DAY, 0))
    for hour in (1.5, 2, 2.5, 3, 3.5):
        found, memory, late = waits(deployment, at(DAY, hour), Memory.from_text(memory.to_text()))
        assert found[DAY] == "has no _SUCCESS"
        told += [(hour, day) for day in late if day == DAY]
    assert due_at(DAY, deployment.due_rule) == at(DAY, 2)
    assert told == [(2, DAY)]
    deliver(deployment, DAY, "_SUCCESS", when=at(DAY, 4))
    found, memory, late = waits(deployment, at(DAY, 4), memory)
    assert (found[DAY], late) == (None, [])


def test_files_with_old_times_must_have_been_seen_to_lie_still(deployed) -> None:
    deployment, memory = deployed("stable_for 5m"), Memory()
    deliver(deployment, DAY, "a.csv", when=at(DAY, -20))
    found, memory, _ = waits(deployment, at(DAY, 3), memory)
    assert found[DAY] == "has been seen still for 0 s, and must be for 300 s"
    deliver(deployment, DAY, "b.csv", when=at(DAY, -20))
    found, memory, _ = waits(deployment, at(DAY, 3.08), memory)
    assert found[DAY] == "has been seen still for 0 s, and must be for 300 s"
    found, memory, _ = waits(deployment, at(DAY, 3.12), memory)
    assert found[DAY] is not None
    assert waits(deployment, at(DAY, 3.17), memory)[0][DAY] is None


def test_a_source_that_cannot_be_looked_at_is_waited_for(deployed, monkeypatch) -> None:
    from profile_assets.errors import StorageError

    def away(*_: object) -> None:
        raise StorageError("the store is away", remedy="wait")

    monkeypatch.setattr("profile_assets.orchestration.waiting.sighted", away)
    found, _, late = waits(deployed("_SUCCESS"), at(DAY, 5), Memory())
    assert found[DAY] == "cannot be looked at: the store is away -> wait"
    assert DAY in late


def test_only_the_last_week_is_looked_at_and_nothing_before_the_start(deployed) -> None:
    deployment = deployed("none")
    for today, first in ((dt.date(2026, 4, 8), dt.date(2026, 4, 2)), (dt.date(2026, 3, 22), dt.date(2026, 3, 20))):
        assert min(waits(deployment, at(today, 5), Memory())[0]) == first


def test_a_damaged_publish_record_holds_up_no_day(deployed) -> None:
    deployment = deployed("none")
    part, record = deployment.layout.offline_part(DAY), deployment.layout.publish_record(DAY)
    for path in (part, record):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
    found = waits(deployment, at(DAY, 5), Memory())[0]
    assert DAY not in found
    assert DAY - ONE_DAY in found


def test_the_nightly_schedule_skips_a_day_that_is_not_ready(deployed) -> None:
    deployment = deployed("_SUCCESS")
    skipped = night(deployment, DAY, at(DAY, 2))
    assert isinstance(skipped, dg.SkipReason)
    assert "has no _SUCCESS; the sensor risk_source_ready starts the day" in str(skipped.skip_message)
    deliver(deployment, DAY, "a.csv", "_SUCCESS", when=at(DAY, 0))
    request = night(deployment, DAY, at(DAY, 2))
    assert isinstance(request, dg.RunRequest)
    assert request.partition_key == "2026-03-28"


def test_without_a_rule_the_schedule_starts_the_day_whatever_is_there(deployed) -> None:
    assert isinstance(night(deployed("none"), DAY, at(DAY, 2)), dg.RunRequest)


# --- the sensor itself, on the clock of this machine ---------------------------------------------


def tick(deployment: Deployment, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
    from profile_assets.orchestration.build import build_definitions

    repository = build_definitions(deployment).get_repository_def()
    sensor = repository.get_sensor_def("risk_source_ready")
    with dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=repository) as context:
        return sensor.evaluate_tick(context)


def test_the_sensor_starts_ready_days_once_and_reports_late_ones(tmp_path: Path, deployed) -> None:
    deployment = deployed("_SUCCESS")
    yesterday = deployment.today() - ONE_DAY
    ready, late = yesterday - ONE_DAY, yesterday - 2 * ONE_DAY
    deliver(deployment, ready, "a.csv", "_SUCCESS", when=dt.datetime.now(dt.UTC))
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        first = tick(deployment, instance, None)
        assert [request.partition_key for request in first.run_requests] == [str(ready)]
        assert str(late) in {event.partition for event in first.asset_events}
        assert str(ready) not in {event.partition for event in first.asset_events}
        second = tick(deployment, instance, first.cursor)
        assert second.asset_events == []
        tags = {**first.run_requests[0].tags, "dagster/partition": str(ready)}
        assert SOURCE_TAG in tags
        instance.create_run_for_job(_any_job("risk_day"), tags=tags, status=dg.DagsterRunStatus.FAILURE)
        assert tick(deployment, instance, second.cursor).run_requests == []
        deliver(deployment, ready, "b.csv", when=dt.datetime.now(dt.UTC))
        again = tick(deployment, instance, second.cursor).run_requests
        assert [request.partition_key for request in again] == [str(ready)]
        instance.create_run_for_job(
            _any_job("risk_day"), tags={"dagster/partition": str(ready)}, status=dg.DagsterRunStatus.STARTED
        )
        assert tick(deployment, instance, second.cursor).run_requests == []
    assert json.loads(second.cursor or "")["seen"]


def test_a_table_that_failed_while_it_filled_is_started_again_once_it_has_more_rows(tmp_path, deployed, rows) -> None:
    deployment = deployed("none", QUERY)
    yesterday = deployment.today() - ONE_DAY
    day = yesterday - ONE_DAY
    rows(day, 1)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        (request,) = tick(deployment, instance, None).run_requests
        tags = {**request.tags, "dagster/partition": str(day)}
        instance.create_run_for_job(_any_job("risk_day"), tags=tags, status=dg.DagsterRunStatus.FAILURE)
        assert tick(deployment, instance, None).run_requests == []
        rows(day, 1)
        (again,) = tick(deployment, instance, None).run_requests
    assert (again.partition_key, again.run_key != request.run_key) == (str(day), True)


def test_a_table_is_left_to_lie_still_and_the_schedule_leaves_it_to_the_sensor(deployed, rows) -> None:
    deployment, memory = deployed("stable_for 5m", QUERY), Memory()
    for hour in (3, 3.05):
        rows(DAY, 1)
        found, memory, _ = waits(deployment, at(DAY, hour), memory)
        assert found[DAY] == "has been seen still for 0 s, and must be for 300 s"
    assert waits(deployment, at(DAY, 3.14), memory)[0][DAY] is None
    skipped = night(deployment, DAY, at(DAY, 4))
    assert isinstance(skipped, dg.SkipReason)
    assert "must be seen still for 300 s; the sensor risk_source_ready" in str(skipped.skip_message)


def _any_job(name: str) -> dg.JobDefinition:
    @dg.op
    def nothing() -> None: ...

    @dg.job(name=name)
    def job() -> None:
        nothing()

    return job
