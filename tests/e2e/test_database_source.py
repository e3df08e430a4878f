"""Users and labels in a database, to published scores; a day that is restated there is noticed and redone by a job."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import Deployment, load_deployment
from profile_assets.storage.layout import USERS_FILE

DAYS = [dt.date(2026, 3, 1), dt.date(2026, 3, 8), dt.date(2026, 3, 20), dt.date(2026, 4, 1)]
LARGEST_ID = 9_223_372_036_854_775_807

PROFILE = """
name = "risk"
time_zone = "Europe/Berlin"
start_day = 2026-04-01
[source]
query = "select * from accounts where as_of = :day"
url_env = "RISK_DB"
[contract]
id = "account_no"
[[contract.columns]]
name = "balance"
type = "decimal(14,2)"
[[contract.columns]]
name = "country"
type = "string"
personal = true
VECTOR
[labels]
query = "select account_no, defaulted from defaults where as_of = :day"
url_env = "RISK_DB"
key = "account_no"
column = "defaulted"
horizon_days = 7
[training]
first_day = 2026-03-01
last_day = 2026-03-08
selection_day = 2026-03-20
epochs = 2
[model]
hidden = [8]
embedding_dim = 2
features = [{ name = "country" }, { name = "balance", transform = "log1p" }]
[shards]
count = 2
"""
VECTOR = '[[contract.columns]]\nname = "vector"\ntype = "list<float32,2>"'


def statements(*, has_vectors: bool) -> list[str]:
    vector, value = (", vector real[]", ", array[1, 0.5]") if has_vectors else ("", "")
    made = [f"create table accounts (account_no bigint, as_of date, balance numeric(14,2), country text{vector})"]
    made.append("create table defaults (account_no bigint, as_of date, defaulted int)")
    for day in DAYS:
        rows = [
            (LARGEST_ID - n, day, f"{n * 7919 % 5000}.{n % 100:02d}", ("de", "fr", "pl")[n % 3]) for n in range(400)
        ]
        users = ", ".join(f"({i}, '{d}', {balance}, '{country}'{value})" for i, d, balance, country in rows)
        labels = ", ".join(f"({i}, '{d}', {int(float(balance) < 2000)})" for i, d, balance, _ in rows)
        made += [f"insert into accounts values {users}", f"insert into defaults values {labels}"]
    return made


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service("postgres"))])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs statements in a database that $RISK_DB names and that holds the accounts."""
    if request.param == "sqlite":
        url, connect = f"sqlite:///{tmp_path}/risk.db", lambda: sqlite3.connect(tmp_path / "risk.db")
    else:
        import adbc_driver_postgresql.dbapi as postgres

        url = request.getfixturevalue("postgres")
        connect = lambda: postgres.connect(url)  # noqa: E731

    def run(*texts: str) -> None:
        with contextlib.closing(connect()) as connection:
            with contextlib.closing(connection.cursor()) as cursor:
                for text in texts:
                    cursor.execute(text)
            connection.commit()

    monkeypatch.setenv("RISK_DB", url)
    if request.param == "postgres":
        run("drop schema public cascade", "create schema public")
    run(*statements(has_vectors=request.param == "postgres"))
    return run


@pytest.fixture
def risk(request: pytest.FixtureRequest, tmp_path: Path) -> Deployment:
    is_postgres = "postgres" in request.node.name
    path = tmp_path / "risk.toml"
    path.write_text(PROFILE.replace("VECTOR", VECTOR if is_postgres else ""))
    return load_deployment(path, environment={"PROFILE_DATA": str(tmp_path)})


def launch(runs: Session, job: str) -> Any:
    return runs.definitions.resolve_job_def(job).execute_in_process(instance=runs.instance, raise_on_error=False)


def source_check(runs: Session) -> tuple[bool, str]:
    (evaluation,) = launch(runs, "risk_source_check").get_asset_check_evaluations()
    return evaluation.passed, evaluation.description or ""


def test_a_table_in_a_database_is_scored_and_redone_when_it_is_restated(
    risk: Deployment,
    database: Callable[..., None],
    tmp_path: Path,
    new_instance: Callable[[Path], dg.DagsterInstance],
) -> None:
    day = DAYS[-1]
    with new_instance(tmp_path) as instance:
        runs = Session(deployment=risk, definitions=build_definitions(risk), instance=instance)
        runs.train()
        runs.score(day)
        first = read_day(risk.layout, day).sort_by("user_id")
        assert first["user_id"].to_pylist() == sorted(str(LARGEST_ID - n) for n in range(400))
        landed = pq.read_table(risk.layout.stage("raw_users", day) / USERS_FILE)
        if "vector" in landed.schema.names:
            assert landed["vector"][0].as_py() == [1.0, 0.5]
        assert source_check(runs) == (True, "none of 1 published days was restated")
        database(f"update accounts set balance = 1 where account_no = {LARGEST_ID} and as_of = '{day}'")
        passed, told = source_check(runs)
        assert not passed
        assert "2026-04-01; launch the job risk_redo_restated" in told
        assert launch(runs, "risk_redo_restated").success
        assert source_check(runs)[0]
        again = read_day(risk.layout, day).sort_by("user_id")
        changed = [a != b for a, b in zip(again["score"].to_pylist(), first["score"].to_pylist(), strict=True)]
        assert changed.count(True) == 1
        assert not any("pass%25word" in str(record) for record in instance.all_logs(instance.get_runs()[0].run_id))


def test_a_day_that_cannot_be_redone_is_named_and_readers_keep_what_they_had(
    risk: Deployment,
    database: Callable[..., None],
    tmp_path: Path,
    new_instance: Callable[[Path], dg.DagsterInstance],
) -> None:
    day = DAYS[-1]
    with new_instance(tmp_path) as instance:
        runs = Session(deployment=risk, definitions=build_definitions(risk), instance=instance)
        runs.train()
        runs.score(day)
        first = read_day(risk.layout, day)
        database(f"update accounts set account_no = null where as_of = '{day}'")
        result = launch(runs, "risk_redo_restated")
        assert not result.success
        (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
        assert "2026-04-01: " in failure.user_failure_data.description
        assert read_day(risk.layout, day).equals(first)
        assert not source_check(runs)[0]
