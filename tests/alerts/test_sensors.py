"""The sensors themselves: real ticks with their cursor on a real instance, and real runs that fail."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from profile_assets.alerts.incidents import noted
from profile_assets.errors import DataError, ProfileError
from profile_assets.orchestration.alerting import alert_sensors
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import Deployment, load_deployment

PROFILE = """
name = "risk"
time_zone = "Europe/Berlin"
start_day = 2026-03-01
[source]
path = "in/{day}"
format = "csv"
ready = "_SUCCESS"
[contract]
id = "account"
[[contract.columns]]
name = "balance"
type = "float64"
[model]
features = [{ name = "balance" }]
[quality]
min_rows = 5
[alerts]
urls_env = ["ALERTS"]
ui_url = "https://dagster.example"
group_minutes = 0
"""
FIRST = dt.date(2026, 3, 1)
ONE_DAY = dt.timedelta(days=1)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint) -> Deployment:
    path = tmp_path / "risk.toml"
    path.write_text(PROFILE)
    monkeypatch.setenv("ALERTS", f"json://127.0.0.1:{endpoint.port}/s3cr3tt0k3n")
    return load_deployment(path, environment={"PROFILE_DATA": str(tmp_path)})


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as made:
        yield made


class Clock:
    """Noon before anything is due, until it is set."""

    now = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        return self.now


class Sensors:
    """Both sensors, ticked as the daemon does: each with the cursor that its last tick left."""

    def __init__(self, deployment: Deployment, instance: dg.DagsterInstance) -> None:
        self.clock, self.instance = Clock(), instance
        self.sensors = {one.name: one for one in alert_sensors(deployment, self.clock)}
        self.cursors: dict[str, str | None] = dict.fromkeys(self.sensors)

    def tick(self, name: str) -> str | None:
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursors[name])
        result = self.sensors[name].evaluate_tick(context)
        self.cursors[name] = result.cursor or self.cursors[name]
        return result.skip_message


@pytest.fixture
def sensors(deployment: Deployment, instance: dg.DagsterInstance) -> Sensors:
    return Sensors(deployment, instance)


def test_ticks_on_a_clock_tell_of_a_stale_table_once_and_of_its_recovery_once(sensors, days, at, endpoint):
    for hour in (3.9, 4, 4.1, 5):
        sensors.clock.now = at(FIRST + ONE_DAY, hour)
        sensors.tick("risk_alerts")
    assert endpoint.titles() == ["[ERROR] risk: stale, the source of 2026-03-01 is late"]
    assert sensors.cursors["risk_alerts"] == "offline source_late since 2026-03-02 04:00 Europe/Berlin"
    days.publish(FIRST, online="done")
    for hour in (6, 7):
        sensors.clock.now = at(FIRST + ONE_DAY, hour)
        sensors.tick("risk_alerts")
    assert endpoint.titles()[1:] == ["[RECOVERED] risk: 2026-03-01 is published"]
    assert sensors.cursors["risk_alerts"] == "nothing is wrong"


def test_a_tick_that_cannot_deliver_is_green_says_so_and_tells_later(sensors, at, endpoint, caplog):
    endpoint.reply.status = 503
    sensors.clock.now = at(FIRST + ONE_DAY, 4)
    said = sensors.tick("risk_alerts")
    assert said.endswith("(not told yet) | 0 delivered, 1 waiting")
    endpoint.reply.status = 200
    sensors.clock.now += dt.timedelta(minutes=1)
    assert sensors.tick("risk_alerts").endswith("1 delivered, 0 waiting")
    assert len(endpoint.received) == 2
    assert "s3cr3tt0k3n" not in caplog.text


def test_a_lost_cursor_tells_nothing_twice(sensors, at, endpoint):
    sensors.clock.now = at(FIRST + ONE_DAY, 4)
    sensors.tick("risk_alerts")
    sensors.cursors["risk_alerts"] = None
    sensors.tick("risk_alerts")
    assert len(endpoint.received) == 1


def test_a_stale_table_is_told_of_while_s3_cannot_be_reached(tmp_path, monkeypatch, endpoint, instance, at):
    path = tmp_path / "risk.toml"
    path.write_text(PROFILE)
    monkeypatch.setenv("ALERTS", f"json://127.0.0.1:{endpoint.port}/s3cr3tt0k3n")
    for name, value in {
        "ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "ACCESS_KEY_ID": "k",
        "SECRET_ACCESS_KEY": "s",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    on_s3 = {"PROFILE_DATA": "s3://team/scores", "PROFILE_WORK": str(tmp_path)}
    sensors = Sensors(load_deployment(path, environment=on_s3), instance)
    sensors.clock.now = at(FIRST + ONE_DAY, 4)
    sensors.tick("risk_alerts")
    assert endpoint.titles() == ["[ERROR] risk: stale, the source of 2026-03-01 is late"]


# --- runs that fail: they end on the clock of this machine, and no day is due ---------------------------


@pytest.fixture
def history(deployment: Deployment) -> Deployment:
    """All days are history."""
    path = deployment.root / "history.toml"
    path.write_text(PROFILE + "[schedule]\nlive_from = 2999-01-01\n")
    return load_deployment(path, environment={"PROFILE_DATA": str(deployment.root)})


@pytest.fixture
def failures(history: Deployment, instance: dg.DagsterInstance) -> Sensors:
    """The sensors, ticked once before anything fails."""
    ticked = Sensors(history, instance)
    ticked.tick("risk_run_failures")
    return ticked


@pytest.fixture
def fail(history: Deployment, instance: dg.DagsterInstance) -> Callable[[dt.date], dg.DagsterRun]:
    """Run a day, which fails."""
    session = Session(deployment=history, definitions=build_definitions(history), instance=instance)

    def go(day: dt.date) -> dg.DagsterRun:
        with pytest.raises(DataError, match="failed"):
            session.score(day)
        return instance.get_runs(limit=1)[0]

    return go


def tell(sensors: Sensors, ticks: int = 1) -> None:
    """Note what failed, one run a tick, and look."""
    for _ in range(ticks):
        sensors.tick("risk_run_failures")
    sensors.clock.now = dt.datetime.now(dt.UTC)
    sensors.tick("risk_alerts")


def test_runs_that_fail_are_told_together_with_error_remedy_and_link(failures, fail, endpoint, history):
    runs = [fail(FIRST + n * ONE_DAY) for n in range(3)]
    tell(failures, ticks=4)
    assert endpoint.titles() == ["[ERROR] risk: 3 days (2026-03-01 to 2026-03-03) failed"]
    text = endpoint.received[0]["message"]
    assert "2026-03-01, raw_users: the source of 2026-03-01" in text
    assert "What to do: " in text
    assert f"Link: https://dagster.example/runs/{runs[-1].run_id}" in text
    tell(failures)
    assert len(endpoint.received) == 1
    metrics = history.layout.metrics.read_text()
    assert 'run_success{profile="risk"} 0' in metrics
    assert 'run_seconds{profile="risk"} ' in metrics


def test_a_run_that_could_not_be_loaded_is_told_with_what_was_wrong(failures, instance, history, endpoint):
    """As a run's process fails that finds a mistake in the profile: before any step, and without one."""
    job = build_definitions(history).resolve_job_def("risk_day")
    run = instance.create_run_for_job(job, tags={"dagster/partition": str(FIRST)})
    try:
        try:
            raise ProfileError("p.toml has 1 mistake(s):\n  quality.max_psi: no such field", remedy="correct it")
        except ProfileError as error:
            raise RuntimeError("Could not load the job") from error
    except RuntimeError:
        met = serializable_error_info_from_exc_info(sys.exc_info())
    instance.report_engine_event("Could not load job definition.", run, EngineEventData(error=met))
    instance.report_run_failed(run, "This run has been marked as failed from outside the execution context.")
    tell(failures)
    text = endpoint.received[0]["message"]
    assert "p.toml has 1 mistake(s): quality.max_psi: no such field" in text
    assert "What to do: correct it" in text


def test_a_run_that_dagster_starts_again_is_not_told(failures, fail, instance, history, endpoint):
    instance.add_run_tags(fail(FIRST).run_id, {"dagster/will_retry": "true"})
    tell(failures)
    assert noted(history.layout) == []
    instance.add_run_tags(fail(FIRST).run_id, {"dagster/will_retry": "false"})
    tell(failures)
    assert endpoint.titles() == ["[ERROR] risk: 2026-03-01 failed"]


def test_a_gate_that_stopped_a_day_is_told_with_its_numbers(failures, fail, days, endpoint):
    days.deliver(FIRST)
    (days.source / str(FIRST) / "a.csv").write_text("account,balance\n1,2.5\n")
    fail(FIRST)
    tell(failures)
    assert endpoint.titles() == ["[ERROR] risk: 2026-03-01 did not pass the gates"]
    text = endpoint.received[0]["message"]
    assert "2026-03-01, raw_users: min_rows: observed 1, limit 5" in text
    assert "profile-assets release 2026-03-01 --check min_rows" in text


def test_runs_of_others_are_left_alone(failures, instance, history):
    @dg.op
    def broken() -> None:
        raise ValueError("of another house")

    @dg.job
    def theirs() -> None:
        broken()

    theirs.execute_in_process(instance=instance, raise_on_error=False)
    assert "is none to tell of" in (failures.tick("risk_run_failures") or "")
    assert noted(history.layout) == []
