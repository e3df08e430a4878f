"""What the outside sees of the graph, frozen: alerts, dashboards and bookmarks hang on these names."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from profile_assets.orchestration.build import build_definitions
from profile_assets.profile import load_deployment
from profile_assets.profile.loading import default_profile


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return build_definitions(load_deployment(environment={}))


def test_the_assets_and_what_they_depend_on(definitions: dg.Definitions):
    graph = definitions.resolve_asset_graph()
    assert {
        key.to_user_string(): sorted(up.path[-1] for up in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    } == {
        "purchase_30d/raw_users": [],
        "purchase_30d/user_shards": ["raw_users"],
        "purchase_30d/model_bundle": [],
        "purchase_30d/stable_bundle": ["model_bundle"],
        "purchase_30d/user_scores": ["stable_bundle", "user_shards"],
        "purchase_30d/feature_store_export": ["user_scores"],
        "purchase_30d/published_scores": ["feature_store_export"],
        "purchase_30d/shadow_scores": ["feature_store_export"],
    }


def test_only_the_four_stages_and_the_shadow_are_partitioned(definitions: dg.Definitions):
    graph = definitions.resolve_asset_graph()
    daily = {key.path[-1] for key in graph.get_all_asset_keys() if graph.get(key).partitions_def is not None}
    assert daily == {"raw_users", "user_shards", "user_scores", "feature_store_export", "shadow_scores"}


def test_the_checks(definitions: dg.Definitions):
    graph = definitions.resolve_asset_graph()
    assert sorted(f"{key.asset_key.path[-1]}: {key.name}" for key in graph.asset_check_keys) == [
        "feature_store_export: online_parity",
        "feature_store_export: rows_match_scores",
        "published_scores: canary",
        "published_scores: fresh",
        "published_scores: reconciled",
        "published_scores: source_unchanged",
        "raw_users: min_rows",
        "raw_users: row_count_change",
        "raw_users: row_count_weekday",
        "raw_users: rows_match_read",
        "user_scores: feature_drift",
        "user_scores: rows_match_shards",
        "user_scores: score_drift",
        "user_scores: scores_valid",
        "user_scores: unknown_categories",
        "user_shards: null_rate_change",
        "user_shards: null_rate_weekday",
        "user_shards: null_rates",
        "user_shards: ranges",
        "user_shards: rows_match_raw",
        "user_shards: shard_skew",
        "user_shards: unique_ids",
    ]


def test_a_suite_of_ones_own_is_one_more_check(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(default_profile().read_text() + '\nsuite = "suite.json"\n')
    graph = build_definitions(load_deployment(path, environment={})).resolve_asset_graph()
    assert "suite" in {key.name for key in graph.asset_check_keys if key.asset_key.path[-1] == "user_shards"}


def test_the_jobs_and_schedules(definitions: dg.Definitions):
    repository = definitions.get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} - {"__ASSET_JOB"} == {
        "purchase_30d_day",
        "purchase_30d_train",
        "purchase_30d_freshness",
        "purchase_30d_source_check",
        "purchase_30d_redo_restated",
        "purchase_30d_reconcile",
        "purchase_30d_reconcile_replace",
        "purchase_30d_canary",
        "purchase_30d_shadow",
        "purchase_30d_prune",
        "purchase_30d_arrivals",
    }
    schedules = {schedule.name: schedule for schedule in repository.schedule_defs}
    assert {name: schedule.cron_schedule for name, schedule in schedules.items()} == {
        "purchase_30d_nightly": "0 2 * * *",
        "purchase_30d_freshness_hourly": "5 * * * *",
        "purchase_30d_source_check_daily": "20 6 * * *",
        "purchase_30d_reconcile_weekly": "0 5 * * 1",
        "purchase_30d_canary_daily": "0 6 * * *",
        "purchase_30d_shadow_nightly": "0 4 * * *",
        "purchase_30d_prune_daily": "40 12 * * *",
        "purchase_30d_arrivals_nightly": "30 0 * * *",
    }
    assert schedules["purchase_30d_nightly"].default_status == dg.DefaultScheduleStatus.STOPPED


def test_the_sensors(definitions: dg.Definitions):
    sensors = {sensor.name: sensor for sensor in definitions.get_repository_def().sensor_defs}
    assert set(sensors) == {"purchase_30d_source_ready", "purchase_30d_alerts", "purchase_30d_run_failures"}
    assert {sensor.default_status for sensor in sensors.values()} == {dg.DefaultSensorStatus.STOPPED}
    assert sensors["purchase_30d_source_ready"].default_status == dg.DefaultSensorStatus.STOPPED
    assert sensors["purchase_30d_source_ready"].job_name == "purchase_30d_day"


def test_with_a_channel_the_sensors_of_alerts_are_on_from_the_start(tmp_path):
    path = tmp_path / "told.toml"
    path.write_text(default_profile().read_text() + '\n[[alerts.channels]]\nurl_env = "ALERTS"\n')
    repository = build_definitions(load_deployment(path, environment={})).get_repository_def()
    running = {one.name for one in repository.sensor_defs if one.default_status == dg.DefaultSensorStatus.RUNNING}
    assert running == {"purchase_30d_alerts", "purchase_30d_run_failures"}


def test_the_nights_run_is_yesterdays_partition(tmp_path):
    profile = tmp_path / "waits_for_nothing.toml"
    profile.write_text(default_profile().read_text().replace('ready = "_SUCCESS"', 'ready = "none"'))
    definitions = build_definitions(load_deployment(profile, environment={}))
    schedule = definitions.resolve_schedule_def("purchase_30d_nightly")
    tonight = dt.datetime.now(ZoneInfo("UTC")).replace(hour=2, minute=0, second=0, microsecond=0)
    with dg.build_schedule_context(
        scheduled_execution_time=tonight, repository_def=definitions.get_repository_def()
    ) as context:
        (request,) = schedule.evaluate_tick(context).run_requests
    assert request.partition_key == (tonight.date() - dt.timedelta(days=1)).isoformat()


def test_the_code_server_loads_neither_torch_nor_great_expectations():
    code = "import profile_assets.definitions, sys; print(sorted({'torch', 'great_expectations'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_two_profiles_live_in_one_code_location(tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(re.sub(r'name = "purchase_30d"', 'name = "risk"', default_profile().read_text(), count=1))
    both = dg.Definitions.merge(
        build_definitions(load_deployment(environment={})), build_definitions(load_deployment(other, environment={}))
    )
    keys = {key.path[0] for key in both.resolve_asset_graph().get_all_asset_keys()}
    assert keys == {"purchase_30d", "risk"}
    dg.Definitions.validate_loadable(both)
