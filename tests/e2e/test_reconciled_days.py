"""Incremental days inside Dagster, and the weekly truth: a stale carry is found, shown, and replaced on request."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.alerts.problems import differing
from profile_assets.commands.reconcile import reconcile
from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.read import read_day
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.orchestration.reconciling import carried_since, replace_day
from profile_assets.profile import Deployment, load_deployment
from profile_assets.profile.loading import default_profile
from profile_assets.scoring.scorer import ROWS_DIGEST, score_sink
from profile_assets.storage.layout import RECONCILE, USER_SCORES
from profile_assets.storage.parquet import iter_batches, read_footer
from profile_assets.storage.records import Manifest, read_json
from profile_assets.storage.stages import commit, current, describe, seal
from profile_assets.storage.verdicts import Verdict, read_verdict, write_verdict
from profile_assets.storage.written import ScoreOrder

STALE = "00042"


@pytest.fixture
def incremental(fresh_world: Any, tmp_path: Path) -> Session:
    """The demo with nothing scored yet, its profile incremental, its users standing still from day to day."""
    text = (
        default_profile().read_text(encoding="utf-8").replace("[shards]", '[scoring]\nmode = "incremental"\n[shards]')
    )
    path = tmp_path / "incremental.toml"
    path.write_text(text, encoding="utf-8")
    deployment = load_deployment(path, environment={"PROFILE_DATA": str(tmp_path)})
    first, *later = fresh_world.days
    users = tmp_path / "demo" / "users"
    for day in later:
        shutil.rmtree(users / f"day={day}")
        shutil.copytree(users / f"day={first}", users / f"day={day}")
    return Session(deployment=deployment, definitions=build_definitions(deployment), instance=fresh_world.instance)


def evaluation(runs: Session) -> dg.AssetCheckEvaluation:
    """The last evaluation of the check."""
    (run,) = runs.instance.get_runs(limit=1)
    (entry,) = runs.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found = entry.get_dagster_event().event_specific_data
    assert isinstance(found, dg.AssetCheckEvaluation)
    return found


def scores(deployment: Deployment, day: dt.date) -> dict[str, float]:
    rows = read_day(deployment.layout, day, columns=["user_id", "score"])
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def plant(deployment: Deployment, day: dt.date, score: float) -> None:
    """Let a published-to-be day hold a wrong score beside a right digest of the input, sealed and judged like any."""
    layout = deployment.layout
    manifest, verdict = current(layout, USER_SCORES, day), read_verdict(layout, day)
    assert manifest is not None
    assert verdict is not None
    folder = layout.staging(USER_SCORES, day)
    shutil.copytree(layout.stage(USER_SCORES, day), folder, dirs_exist_ok=True)
    entries = tuple(_bent(folder / entry.name, score) for entry in manifest.files)
    bent = Manifest(
        stage=USER_SCORES, day=manifest.day, files=entries, made_from=manifest.made_from, facts=manifest.facts
    )
    commit(layout, day, seal(layout, day, bent))
    judged = verdict.stages[USER_SCORES]
    stages = {**verdict.stages, USER_SCORES: type(judged)(**{**vars(judged), "digest": bent.digest})}
    write_verdict(layout, Verdict(day=day, stages=stages))


def _bent(path: Path, score: float) -> Any:
    footer, table = read_footer(path), pa.Table.from_batches(list(iter_batches(path)))
    ids = table.column("user_id").to_pylist()
    if STALE in ids:
        values = table.column("score").to_pylist()
        values[ids.index(STALE)] = score
        table = table.set_column(1, "score", pa.array(values, pa.float32()))
        order = ScoreOrder()
        order.add(table.column("user_id"), table.column("score"))
        with score_sink(path, {**footer, ROWS_DIGEST: order.digest}, pq.read_schema(path).remove_metadata()) as sink:
            sink.write(table)
    return describe(path)


@pytest.fixture
def command(incremental: Session, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`profile-assets reconcile`, on an instance of its own."""
    home = incremental.deployment.root / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("PROFILE_DATA", str(incremental.deployment.root))
    monkeypatch.setenv("PROFILE_CONFIG", str(incremental.deployment.root / "incremental.toml"))
    return reconcile


def test_a_stale_carry_is_found_by_reconciling_and_replaced_on_request(
    incremental: Session, fresh_world: Any, command: Callable[..., int]
):
    deployment, layout, days = incremental.deployment, incremental.deployment.layout, fresh_world.days
    incremental.score(days[0])
    right = scores(deployment, days[0])
    incremental.reconcile(days[0])
    assert evaluation(incremental).passed

    plant(deployment, days[0], 0.875)
    publish(layout, days[0], time_zone="UTC", clock=lambda: dt.datetime.now(dt.UTC), export=deployment.export)
    incremental.score(days[1])
    manifest = current(layout, USER_SCORES, days[1])
    assert manifest is not None
    assert manifest.facts["carrying"]["from"] == days[0].isoformat()
    assert manifest.facts["carrying"]["carried"] == manifest.rows
    assert scores(deployment, days[1])[STALE] == 0.875

    incremental.reconcile(days[1])
    found = evaluation(incremental)
    assert not found.passed
    assert found.metadata["changed"].value == found.metadata["changed_carried"].value == 1
    (example,) = found.metadata["examples"].records
    assert (example.data["user_id"], example.data["route"], example.data["published"]) == (STALE, "carried", 0.875)
    assert example.data["in_full"] == pytest.approx(right[STALE])
    assert found.metadata["differences"].value.startswith("![](data:image/svg+xml")
    assert read_json(layout.reconciliation(days[1]))["changed"] == 1
    assert scores(deployment, days[1])[STALE] == 0.875, "a comparison replaces nothing"
    assert [path.name for path in layout.stage(RECONCILE, days[1]).parent.glob("day=*")] == [f"day={days[1]}"]

    incremental.score(days[2])
    assert carried_since(layout, days[0]) == days[1:]
    incremental.reconcile(days[1])
    assert "again, which carried from it" in (evaluation(incremental).description or "")
    assert command(days[1], replaces=False) == 1
    assert [one.day for one in differing(layout, deployment.due_rule, dt.datetime.now(dt.UTC))] == [days[1]]
    assert scores(deployment, days[1])[STALE] == 0.875
    assert command(days[1], replaces=True) == 0
    assert command(days[1], replaces=True) == 0, "there is nothing to replace any more"
    assert scores(deployment, days[1]) == right
    replaced = current(layout, USER_SCORES, days[1])
    assert replaced is not None
    assert replaced.facts["carrying"]["carried"] == 0
    assert not list(differing(layout, deployment.due_rule, dt.datetime.now(dt.UTC)))
    incremental.reconcile(days[1])
    assert evaluation(incremental).passed

    incremental.score(days[2])
    assert scores(deployment, days[2]) == right, "the day after carries from what was put right"
    again = current(layout, USER_SCORES, days[2])
    assert again is not None
    assert again.facts["carrying"]["carried"] == again.rows


def test_scores_that_do_not_pass_replace_nothing(incremental: Session, fresh_world: Any):
    deployment, layout, day = incremental.deployment, incremental.deployment.layout, fresh_world.days[0]
    incremental.score(day)
    incremental.reconcile(day)
    before = scores(deployment, day)
    strict = default_profile().read_text(encoding="utf-8").replace("[quality]", "[quality]\nmax_unknown_rate = 0")
    path = layout.root / "strict.toml"
    path.write_text(strict.replace('on_feature_drift = "warn"', 'on_feature_drift = "fail"'), encoding="utf-8")
    with pytest.raises(Exception, match="scored in full, did not pass"):
        replace_day(load_deployment(path, environment={"PROFILE_DATA": str(layout.root)}), day)
    assert scores(deployment, day) == before


def test_raw_days_since_the_last_order_leave_nobody_to_carry_and_the_day_says_so(
    fresh_world: Any, incremental: Session, demo_world: Any
):
    layout, (first, second, _) = incremental.deployment.layout, fresh_world.days
    users = layout.root / "demo" / "users"
    for day in (first, second):
        shutil.rmtree(users / f"day={day}")
        shutil.copytree(demo_world.deployment.root / "demo" / "users" / f"day={day}", users / f"day={day}")
    incremental.score(first)
    incremental.score(second)
    key = dg.AssetKey([layout.name, USER_SCORES])
    event = incremental.instance.get_latest_materialization_event(key)
    assert event is not None
    shown = event.asset_materialization.metadata
    assert shown["carried_share"].value == 0
    assert shown["carried_from"].value == first.isoformat()
    assert str(shown["carrying_is_pointless"].value).startswith("tenure_days, recency_days moved")
    shares = {row.data["feature"]: row.data["share"] for row in shown["features_moved"].records}
    assert shares["tenure_days"] == 1
    assert shares["first_order_size"] == 0
