"""Days that failed a check and were let through by a person, through Dagster; and days taken back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import dagster as dg
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import DataError
from profile_assets.feature_store.read import newest_day, read_day
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.profile import load_deployment
from profile_assets.profile.loading import default_profile
from profile_assets.storage.layout import RAW_USERS, USER_SCORES
from profile_assets.storage.published import read_record
from profile_assets.storage.releases import release
from profile_assets.storage.stages import current
from profile_assets.storage.verdicts import read_verdict

AT = dt.datetime(2026, 1, 6, 8, tzinfo=dt.UTC)
SAID = {"by": "ada", "at": AT, "why": "the shops were closed"}


def source_file(world, day):
    return world.deployment.root / "demo" / "users" / f"day={day}" / "part-0.parquet"


def keep_rows(path, rows):
    pq.write_table(pq.ParquetFile(path).read().slice(0, rows), path)


def line(world, stage, check):
    """The newest line of a check in the UI."""
    key = dg.AssetCheckKey(dg.AssetKey(["purchase_30d", stage]), check)
    (record,) = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    return record.event.dagster_event.event_specific_data


def test_a_released_day_goes_on_with_the_next_run_and_the_ui_says_who_let_it_through(fresh_world):
    layout, (before, day) = fresh_world.deployment.layout, fresh_world.days[-2:]
    fresh_world.session.score(before)
    keep_rows(source_file(fresh_world, day), 21_000)
    with pytest.raises(DataError, match=rf"(?s)row_count_change .*release {day} --check row_count_change"):
        fresh_world.session.score(day)
    staged = layout.staging(RAW_USERS, day)
    assert {path.name for path in staged.iterdir()} == {"users.parquet", "manifest.json"}
    assert (layout.staging("quarantine", day) / "rows.parquet").exists()
    with pytest.raises(DataError, match="row_count_change"):
        fresh_world.session.score(day)  # a later run does not let it through by itself
    release(layout, day, "row_count_change", **SAID)
    fresh_world.session.score(day)
    assert read_day(layout, day).num_rows == 21_000
    shown = line(fresh_world, "raw_users", "row_count_change")
    assert (shown.passed, shown.severity.value) == (False, "WARN")
    assert shown.description == "released by ada: the shops were closed"
    metadata = {name: value.value for name, value in shown.metadata.items()}
    assert metadata["released_at"] == "2026-01-06T08:00:00+00:00"
    assert metadata["limit"] == 0.05
    assert metadata["baseline"] == 23_570
    assert metadata["observed"] == pytest.approx(2570 / 23570)
    assert read_record(layout, day).verdict_digest == read_verdict(layout, day).digest


def test_a_release_dies_when_other_data_is_staged(fresh_world):
    layout, (before, day) = fresh_world.deployment.layout, fresh_world.days[-2:]
    fresh_world.session.score(before)
    keep_rows(source_file(fresh_world, day), 21_000)
    with pytest.raises(DataError, match="row_count_change"):
        fresh_world.session.score(day)
    release(layout, day, "row_count_change", **SAID)
    keep_rows(source_file(fresh_world, day), 20_999)
    with pytest.raises(DataError, match="row_count_change"):
        fresh_world.session.score(day)
    assert read_verdict(layout, day).stages[RAW_USERS].releases == ()
    assert newest_day(layout) == before


def test_the_demo_passes_with_a_warning_of_what_drifts_by_nature(demo_world):
    shown = line(demo_world, "user_scores", "feature_drift")
    assert (shown.passed, shown.severity.value, shown.blocking) == (False, "WARN", True)
    drifted = {row.data["column"]: row.data["observed"] for row in shown.metadata["table"].records}
    assert drifted["tenure_days"] > 5
    assert drifted["recency_days"] > 1
    assert line(demo_world, "user_scores", "score_drift").passed


def test_the_verdict_of_a_day_names_the_digests_and_the_baseline(demo_world):
    layout, (before, day) = demo_world.deployment.layout, demo_world.days[-2:]
    verdict, published = read_verdict(layout, day), read_record(layout, before)
    for stage, judged in verdict.stages.items():
        assert judged.digest == current(layout, stage, day).digest
        assert (judged.baseline_day, judged.baseline_digest) == (before, published.sources[RAW_USERS])
    assert USER_SCORES in verdict.stages


def test_every_line_in_the_ui_has_its_numbers_as_numbers(demo_world):
    for stage, check in (
        ("raw_users", "min_rows"),
        ("user_shards", "null_rate_change"),
        ("user_scores", "score_drift"),
    ):
        metadata = line(demo_world, stage, check).metadata
        for name in ("observed", "limit"):
            assert isinstance(metadata[name], dg.FloatMetadataValue), (check, name)
        assert metadata["expectations"].value > 0


def test_a_suite_of_ones_own_stops_a_day_and_can_be_released(fresh_world, tmp_path):
    expectation = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "orders", "max_value": 3}}
    (tmp_path / "suite.json").write_text(json.dumps({"name": "mine", "expectations": [expectation]}))
    profile = tmp_path / "with_suite.toml"
    profile.write_text(default_profile().read_text() + '\nsuite = "suite.json"\n')
    deployment = load_deployment(profile, environment={"PROFILE_DATA": str(tmp_path)})
    world, day = dataclasses.replace(fresh_world, deployment=deployment), fresh_world.days[-1]
    with pytest.raises(DataError, match=r"suite .fail.: expect_column_values_to_be_between.orders. in shard-00-of-16"):
        world.session.score(day)
    assert line(world, "user_shards", "suite").metadata["expectations"].value == 16
    release(deployment.layout, day, "suite", **SAID)
    world.session.score(day)
    assert newest_day(deployment.layout) == day


def test_a_withdrawn_day_is_not_published_again_by_a_rerun_and_then_by_mended_data(fresh_world):
    layout, (before, day) = fresh_world.deployment.layout, fresh_world.days[-2:]
    for one in (before, day):
        fresh_world.session.score(one)
    withdraw(layout, day, why="prices in cents", by="ada", now=AT)
    assert newest_day(layout) == before
    with pytest.raises(DataError, match="withdrawn by ada: prices in cents"):
        fresh_world.session.score(day)
    assert newest_day(layout) == before
    keep_rows(source_file(fresh_world, day), 23_500)
    fresh_world.session.score(day)
    assert read_day(layout, day).num_rows == 23_500
