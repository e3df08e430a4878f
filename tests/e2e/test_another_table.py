"""A second, quite different table: CSV with a decimal comma, integer ids, booleans and dates, another zone, no replay.

Nothing but its profile says so; the code is the demo's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from profile_assets.feature_store.read import lookup, read_day
from profile_assets.models.registry import read_pointer
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import Deployment, load_deployment

FIRST = dt.date(2026, 3, 24)
NUM_ACCOUNTS = 3_000
LARGEST_ID = 9_223_372_036_854_775_807

PROFILE = """
name = "default_risk"
time_zone = "Europe/Berlin"
start_day = 2026-04-20
[source]
path = "bank/accounts/{day}"
format = "csv"
[source.csv]
delimiter = ";"
decimal = ","
thousands = "."
[contract]
id = "account_no"
[[contract.columns]]
name = "balance"
type = "decimal(14,2)"
[[contract.columns]]
name = "employed"
type = "bool"
max_null_rate = 0.5
[[contract.columns]]
name = "country"
type = "string"
values = ["DE", "FR", "PL"]
[[contract.columns]]
name = "opened"
type = "date"
[labels]
path = "bank/defaults/{day}"
format = "ndjson"
key = "account_no"
column = "defaulted"
horizon_days = 7
[training]
first_day = 2026-03-24
last_day = 2026-03-31
every_days = 7
selection_day = 2026-04-10
epochs = 3
[model]
hidden = [16]
embedding_dim = 4
features = [{ name = "country" }, { name = "balance", transform = "log1p" }, { name = "employed" }]
[shards]
count = 3
"""


def german(value: float) -> str:
    """1234567.8 as `1.234.567,80`"""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def account_no(index: int) -> int:
    return LARGEST_ID - index


def write_day(root: Path, day: dt.date) -> None:
    draws = np.random.default_rng(day.toordinal())
    balances, employed = draws.gamma(2, 40_000, NUM_ACCOUNTS), draws.choice(["true", "false", ""], NUM_ACCOUNTS)
    rows = [
        f"{account_no(i)};{german(balances[i])};{employed[i]};{('DE', 'FR', 'PL')[i % 3]};2020-02-29"
        for i in range(NUM_ACCOUNTS)
    ]
    defaults = draws.random(NUM_ACCOUNTS) < np.where(balances < 60_000, 0.4, 0.1)
    write(root / "bank/accounts" / str(day) / "a.csv", ["﻿account_no;balance;employed;country;opened", *rows])
    labels = [f'{{"account_no": {account_no(i)}, "defaulted": {int(defaults[i])}}}' for i in range(NUM_ACCOUNTS)]
    write(root / "bank/defaults" / str(day) / "d.ndjson", labels)


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def bank(tmp_path: Path) -> Deployment:
    for day in (FIRST, FIRST + dt.timedelta(days=7), dt.date(2026, 4, 10), dt.date(2026, 4, 20)):
        write_day(tmp_path, day)
    profile = tmp_path / "risk.toml"
    profile.write_text(PROFILE, encoding="utf-8")
    return load_deployment(profile, environment={"PROFILE_DATA": str(tmp_path)})


def test_another_table_is_another_file_and_no_code(
    bank: Deployment, tmp_path: Path, new_instance: Callable[[Path], dg.DagsterInstance]
):
    day = bank.profile.start_day
    with new_instance(tmp_path) as instance:
        runs = Session(deployment=bank, definitions=build_definitions(bank), instance=instance)
        runs.train()
        runs.score(day)
    published = read_day(bank.layout, day)
    assert sorted(published["user_id"].to_pylist()) == sorted(str(account_no(i)) for i in range(NUM_ACCOUNTS))
    assert published["event_timestamp"][0].as_py() == dt.datetime(2026, 4, 20, 22, tzinfo=dt.UTC)
    assert len(set(published["score"].to_pylist())) > 100
    found = lookup(bank.layout, str(LARGEST_ID))
    assert found is not None
    assert 0 <= found["score"] <= 1


def test_train_says_which_bundle_it_made_and_whether_that_one_scores(
    bank: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from profile_assets.commands.tour import train

    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("PROFILE_CONFIG", str(tmp_path / "risk.toml"))
    monkeypatch.setenv("PROFILE_DATA", str(tmp_path))
    train()
    stable = read_pointer(bank.layout, "stable")
    assert stable is not None
    assert f"{stable.bundle_id}, which is stable" in "".join(capsys.readouterr().out.split("\n"))
    train()  # the same data and seed: the same bundle, which is stable still
    assert f"{stable.bundle_id}, which is stable" in "".join(capsys.readouterr().out.split("\n"))
    path = tmp_path / "risk.toml"
    path.write_text(path.read_text().replace("epochs = 3", "epochs = 3\nseed = 1"))
    train()
    told = " ".join(capsys.readouterr().out.split())
    assert f"stable is {stable.bundle_id}" in told
    assert "profile-assets models promote b-" in told
    assert told.count("b-") == 3
