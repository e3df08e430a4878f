"""The model of the demo as people meet it: traced by `why`, listed by `models`, shown in the UI."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from profile_assets.cli import app
from profile_assets.feature_store.read import read_day
from profile_assets.models.registry import read_pointer
from profile_assets.tracing.trace import Question, trace

USER = "00042"


def question(world: Any, **changes: Any) -> Question:
    deployment = world.deployment
    asked = Question(
        layout=deployment.layout,
        source=deployment.source,
        contract=deployment.contract,
        scoring=deployment.scoring,
        user=USER,
        day=world.days[-1],
    )
    return dataclasses.replace(asked, **changes)


def command(world: Any, *arguments: str) -> Result:
    """The command in this process: what it imports is loaded already."""
    environment = {"PROFILE_DATA": str(world.deployment.root), "COLUMNS": "200"}
    return CliRunner().invoke(app, list(arguments), env=environment)


@pytest.fixture(scope="module")
def traced(demo_world: Any) -> dict[str, Any]:
    return trace(question(demo_world))


def test_a_score_is_traced_to_the_row_of_the_source(demo_world: Any, traced: dict[str, Any]) -> None:
    day = demo_world.days[-1]
    path = demo_world.deployment.root / "demo" / "users" / f"day={day}" / "part-0.parquet"
    ids = pq.read_table(path, columns=["user_id"], partitioning=None).column(0).to_pylist()
    assert (traced["source"]["state"], traced["source"]["file"]) == ("found", "part-0.parquet")
    assert traced["source"]["row"] == ids.index(USER) + 1
    assert pq.read_table(traced["shard"]["file"]).column("user_id")[traced["shard"]["row"] - 1].as_py() == USER
    assert traced["state"] == "published"
    assert traced["made_again_since"] == []
    assert traced["quarantine"] == []


def test_the_score_that_is_worked_out_again_is_the_published_one(demo_world: Any, traced: dict[str, Any]) -> None:
    published = read_day(demo_world.deployment.layout, demo_world.days[-1]).to_pandas().set_index("user_id")["score"]
    again = traced["recomputed"]
    assert again["agreement"] == "equal"
    assert again["score"] == float(published[USER]) == traced["published"]["score"]


def test_each_feature_is_shown_as_it_was_as_it_is_encoded_and_what_it_did(traced: dict[str, Any]) -> None:
    features = {one["feature"]: one for one in traced["features"]}
    effects = traced["recomputed"]["effects"]
    assert set(features) == {one["feature"] for one in effects}
    assert isinstance(features["recency_days"]["value"], int)
    assert features["order_pace"]["encoded"] >= 2
    assert [abs(one["effect"]) for one in effects] == sorted((abs(one["effect"]) for one in effects), reverse=True)
    score = traced["recomputed"]["score"]
    assert all(one["score_without"] + one["effect"] == pytest.approx(score) for one in effects)
    assert "do not add up" in traced["recomputed"]["effects_are"]


def test_personal_values_are_hashed_unless_asked_for(demo_world: Any, traced: dict[str, Any]) -> None:
    hidden = next(one for one in traced["features"] if one["feature"] == "spend_total")
    assert (len(hidden["value"]), hidden["encoded"]) == (12, "hidden")
    open_trace = trace(question(demo_world, shows_personal=True))
    shown = next(one for one in open_trace["features"] if one["feature"] == "spend_total")
    assert isinstance(shown["encoded"], float)


def test_the_model_the_data_the_code_and_the_checks_are_named(demo_world: Any, traced: dict[str, Any]) -> None:
    stable = read_pointer(demo_world.deployment.layout, "stable")
    assert stable is not None
    bundle = traced["bundle"]
    assert bundle["id"] == stable.bundle_id == traced["published"]["bundle_id"]
    assert {day["role"] for day in bundle["data_snapshot"]["days"]} == {"training", "selection", "report"}
    assert set(bundle["code"]) == {"commit", "is_dirty"}
    assert {one["stage"] for one in traced["verdicts"]} >= {"raw_users", "user_shards", "user_scores"}
    assert all(one["is_of_published"] for one in traced["verdicts"])


def test_what_is_gone_is_said_and_nothing_else_is_left_out(demo_world: Any) -> None:
    gone = dataclasses.replace(demo_world.deployment.source, path=str(demo_world.deployment.root / "nowhere"))
    found = trace(question(demo_world, source=gone))
    assert found["source"]["state"] == "gone"
    assert found["recomputed"]["agreement"] == "equal"


def test_a_user_who_is_not_there_and_a_day_that_is_not(demo_world: Any) -> None:
    missing = trace(question(demo_world, user="nobody"))
    assert (missing["state"], missing["published"], missing["source"]["state"]) == ("missing", None, "absent")
    assert missing["recomputed"]["problem"]
    early = trace(question(demo_world, day=demo_world.deployment.profile.start_day))
    assert (early["state"], early["source"]["state"]) == ("day not published", "not landed")


def test_the_command_traces_for_people_and_for_programs(demo_world: Any) -> None:
    day = str(demo_world.days[-1])
    told = command(demo_world, "why", USER, day)
    assert told.exit_code == 0, told.output
    assert "part-0.parquet row" in told.stdout
    assert "score again" in told.stdout
    found = json.loads(command(demo_world, "why", USER, day, "--json").stdout)
    assert found["recomputed"]["agreement"] == "equal"


def test_a_user_whom_nothing_of_the_day_knows_is_an_error_that_names_both(demo_world: Any) -> None:
    day = str(demo_world.days[-1])
    told = command(demo_world, "why", "nobody", day)
    assert told.exit_code == 1
    assert f"nobody is not known on {day}" in str(told.exception)
    found = command(demo_world, "why", "nobody", day, "--json")
    assert (found.exit_code, json.loads(found.stdout)["state"]) == (1, "missing")


def test_the_ui_shows_how_good_the_model_is(demo_world: Any) -> None:
    key = dg.AssetKey(["purchase_30d", "model_bundle"])
    event = demo_world.instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    shown = event.asset_materialization.metadata
    assert shown["is_stable"].value is True
    assert 0.7 < shown["auc"].value < 0.95
    assert len(shown["metrics"].records) == 2
    assert len(shown["features"].records) == 16
    assert {record.data["role"] for record in shown["data_snapshot"].records} == {"training", "selection", "report"}
    for picture in ("reliability", "scores"):
        assert shown[picture].value.startswith("![](data:image/svg+xml;base64,")
        assert len(shown[picture].value) < 1000
    assert {"commit", "is_dirty", "cpu_capability", "ece"} <= set(shown)


def test_models_are_listed_shown_refused_and_forced(demo_world: Any, tmp_path: Any) -> None:
    layout = demo_world.deployment.layout
    (bundle,) = json.loads(command(demo_world, "models", "list", "--json").stdout)
    assert bundle["pointers"] == ["stable"]
    assert bundle["commit"]
    shown = json.loads(command(demo_world, "models", "show", "stable", "--json").stdout)
    assert shown["bundle_id"] == bundle["bundle_id"]
    assert "recency_days" in command(demo_world, "models", "show", bundle["bundle_id"]).stdout
    again = command(demo_world, "models", "promote", bundle["bundle_id"], "--why", "again")
    assert "is stable already" in again.stdout
    back = command(demo_world, "models", "rollback", "--why", "worse")
    assert "nothing to roll back to" in str(back.exception)
    shutil.copytree(layout.bundle(bundle["bundle_id"]), tmp_path / "elsewhere")
    imported = command(demo_world, "models", "import", str(tmp_path / "elsewhere"))
    assert bundle["bundle_id"] in imported.stdout, imported.output
    history = json.loads(command(demo_world, "models", "history", "--json").stdout)
    assert [(change["pointer"], change["action"]) for change in history] == [("stable", "first")]
    assert json.loads(command(demo_world, "models", "history", "--at", "1999-01-01", "--json").stdout) is None
