"""What a day's run does to each target, through Dagster and the command line, on the real customers."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from profile_assets.errors import StorageError
from profile_assets.feature_store.lookups import lookup
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.read import read_day
from profile_assets.profile import load_deployment
from profile_assets.profile.loading import default_profile
from profile_assets.storage.published import read_record

EXPORT = dg.AssetKey(["purchase_30d", "feature_store_export"])


@pytest.fixture
def world_with(fresh_world: Any, tmp_path: Path) -> Callable[..., Any]:
    """The fresh world under a profile with other targets, and no wait before a retry."""

    def change(**words: str) -> Any:
        text = default_profile().read_text(encoding="utf-8")
        for old, new in words.items():
            assert f'"{old}"' in text
            text = (
                text.replace(f'"{old}"', f'"{new}"')
                if old == "sqlite"
                else text.replace(f'offline = "{old}"', f'offline = "{new}"')
            )
        path = tmp_path / "profile.toml"
        path.write_text(text + "\n[retries]\nwaits_s = [0]\n", encoding="utf-8")
        deployment = load_deployment(path, environment={"PROFILE_DATA": str(tmp_path)})
        return type(fresh_world)(deployment=deployment, instance=fresh_world.instance)

    return change


def cli(world: Any, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PROFILE_DATA": str(world.deployment.root), "COLUMNS": "200", **environment}
    env.setdefault("PROFILE_CONFIG", str(world.deployment.root / "profile.toml"))
    command = [sys.executable, "-m", "profile_assets.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_lookups_of_the_demo_give_what_its_table_gives(demo_world):
    layout, export = demo_world.deployment.layout, demo_world.deployment.export
    table = read_day(layout, demo_world.days[-1])
    scores = dict(zip(table["user_id"].to_pylist(), table["score"].to_pylist(), strict=True))
    answers = lookup(open_online(layout, export.online), list(scores), now=dt.datetime.now(dt.UTC))
    assert {user: answer.score for user, answer in answers.items()} == scores
    assert {answer.day for answer in answers.values()} == {demo_world.days[-1]}
    assert table.column_names[6:] == ["recency_days", "orders"]


def test_the_ui_shows_the_switch_the_parity_and_the_path(demo_world):
    day, before = demo_world.days[-1], demo_world.days[-2]
    (record,) = demo_world.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=EXPORT, asset_partitions=[str(day)]), limit=1
    ).records
    shown = {name: value.value for name, value in record.asset_materialization.metadata.items()}
    assert shown["online_from"].startswith(str(before))
    assert shown["online_to"].startswith(str(day))
    assert shown["online_parity"].startswith("23570 online, 23570 in the table, the same users; 0 of ")
    assert shown["path"] == str(demo_world.deployment.layout.offline_part(day))
    assert shown["bytes"] > 0
    check = dg.AssetCheckKey(EXPORT, "online_parity")
    history = demo_world.instance.event_log_storage.get_asset_check_execution_history(check, limit=9)
    assert [one.status.value for one in history] == ["SUCCEEDED"] * 3


@pytest.mark.service("redis")
def test_a_run_without_redis_fails_and_says_so_and_the_command_line_completes_it(
    world_with, monkeypatch, tmp_path, redis_url
):
    world = world_with(sqlite="redis")
    layout, day = world.deployment.layout, world.days[-1]
    monkeypatch.setenv("PROFILE_REDIS_URL", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(StorageError, match=f"online it is pending.*publish {day}"):
        world.session.score(day)
    assert {name: target.state for name, target in read_record(layout, day).targets.items()} == {
        "offline": "done",
        "online": "pending",
    }
    assert read_day(layout, day).num_rows == 23_570
    failed = cli(world, "publish", str(day), PROFILE_REDIS_URL=f"unix://{tmp_path}/nobody.sock")
    assert (failed.returncode, "online it is pending" in failed.stderr) == (2, True)

    done = cli(world, "publish", str(day), PROFILE_REDIS_URL=redis_url)
    assert done.returncode == 0, done.stderr
    assert "online: done" in done.stdout
    found = cli(world, "lookup", "00001", PROFILE_REDIS_URL=redis_url)
    assert json.loads(found.stdout)["state"] == "found"


def test_a_delta_table_and_a_rollback_from_the_command_line(world_with):
    world = world_with(parquet="delta")
    layout, (before, day) = world.deployment.layout, world.days[-2:]
    for one in (before, day):
        world.session.score(one)
    frame = pl.read_delta(str(layout.offline))
    assert dict(frame.group_by("ds").len().rows()) == {before: 23_570, day: 23_570}

    live = open_online(layout, world.deployment.export.online).live()
    assert live.id in cli(world, "online", "versions").stdout  # whole, to be copied
    assert json.loads(cli(world, "lookup", "00001").stdout)["day"] == str(day)
    back = cli(world, "online", "rollback")
    assert back.returncode == 0, back.stderr
    answer = json.loads(cli(world, "lookup", "00001").stdout)
    row = read_day(layout, before).to_pandas().set_index("user_id").loc["00001"]
    assert (answer["day"], answer["score"]) == (str(before), row["score"])
    assert json.loads(cli(world, "lookup", "00001", "--day", str(day)).stdout)["day"] == str(day)
    missing = cli(world, "lookup", "nobody")
    assert (missing.returncode, json.loads(missing.stdout)["state"]) == (3, "missing")
    assert cli(world, "online", "rollback").returncode == 1
