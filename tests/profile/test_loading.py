from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.errors import ProfileError
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.profile import load_deployment, load_profile
from profile_assets.profile.loading import default_profile

TODAY = dt.date(2026, 1, 15)


def test_the_environment_names_the_profile_and_the_data(write: Callable[[str], Path], minimal: str, tmp_path: Path):
    environment = {"PROFILE_CONFIG": str(write(minimal)), "PROFILE_DATA": str(tmp_path / "d")}
    deployment = load_deployment(environment=environment, today=TODAY)
    assert deployment.profile.name == "risk"
    assert deployment.layout.home == tmp_path / "d" / "risk"
    assert deployment.source.path == str(tmp_path / "d" / "in" / "{day}")


def test_without_an_environment_it_is_the_demo_under_data():
    deployment = load_deployment(environment={}, today=TODAY)
    assert deployment.profile.name == "purchase_30d"
    assert deployment.root == Path("data").absolute()


def test_a_bucket_is_not_put_under_the_data_folder(write: Callable[[str], Path], minimal: str):
    path = write(minimal.replace('"in/{day}"', '"s3://bucket/in/{day}"'))
    assert load_deployment(path, environment={}).source.path == "s3://bucket/in/{day}"


def test_the_rooms_get_what_the_file_says(write: Callable[[str], Path], minimal: str):
    deployment = load_deployment(write(minimal), environment={})
    assert deployment.contract.schema.field("balance").type == pa.float64()
    assert deployment.contract.schema.names == ["user_id", "balance", "country"]
    assert [feature.name for feature in deployment.features] == ["balance", "country"]
    assert deployment.due_rule.hour == 2
    assert deployment.due_rule.start_day == dt.date(2026, 1, 1)


def test_the_targets_are_what_the_file_says(write: Callable[[str], Path], minimal: str):
    assert load_deployment(write(minimal), environment={}).export == ExportSettings(online=OnlineSettings())
    text = minimal + '[export]\noffline = "delta"\ncolumns = ["country"]\n[export.online]\nstore = "none"\n'
    assert load_deployment(write(text), environment={}).export == ExportSettings(offline="delta", columns=("country",))


def test_weights_made_elsewhere_need_no_training(write: Callable[[str], Path], minimal: str):
    deployment = load_deployment(write(minimal), environment={})
    with pytest.raises(ProfileError, match=r"no \[training\]"):
        _ = deployment.training
    with pytest.raises(ProfileError, match=r"no \[labels\]"):
        _ = deployment.labels


def test_a_replay_begins_with_its_last_known_day_on_yesterday(tmp_path: Path):
    deployment = load_deployment(environment={"PROFILE_DATA": str(tmp_path)}, today=TODAY)
    assert deployment.profile.start_day == TODAY - dt.timedelta(days=10)
    assert deployment.due_rule.start_day == TODAY - dt.timedelta(days=3)
    assert deployment.training.selection_day == TODAY - dt.timedelta(days=1) - dt.timedelta(days=182)
    assert deployment.training.report_days[0] - deployment.training.selection_day == dt.timedelta(days=92)


def test_a_replay_that_began_stays_where_it_is(tmp_path: Path):
    calendar = tmp_path / "demo" / "calendar.json"
    calendar.parent.mkdir()
    calendar.write_text(json.dumps({"format": 1, "shift_days": 10_000, "last_known_day": "1998-03-31"}))
    for today in (TODAY, TODAY + dt.timedelta(days=9)):
        deployment = load_deployment(environment={"PROFILE_DATA": str(tmp_path)}, today=today)
        assert deployment.profile.start_day == dt.date(1998, 3, 22) + dt.timedelta(days=10_000)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ProfileError, match=r"nowhere\.toml cannot be read.*PROFILE_CONFIG"):
        load_profile(tmp_path / "nowhere.toml")


def test_broken_toml_is_named_with_its_line(write: Callable[[str], Path]):
    with pytest.raises(ProfileError, match=r"is not TOML.*line 2"):
        load_profile(write('name = "a"\ntime_zone = Europe\n'))


def test_the_demo_is_well_formed():
    assert load_profile(default_profile()).name == "purchase_30d"


def test_a_query_is_read_from_the_database_that_a_variable_names(write: Callable[[str], Path], minimal: str):
    query = 'query = "select * from u where d = :day"\nurl_env = "RISK_DB"'
    source = load_deployment(write(minimal.replace('path = "in/{day}"', query)), environment={}).source
    assert source.format == "sql"
    assert source.sql is not None
    assert (source.sql.url_env, source.sql.query) == ("RISK_DB", "select * from u where d = :day")


@pytest.mark.parametrize(
    ("ready", "marker", "still_s"), [("_SUCCESS", "_SUCCESS", 0), ("stable_for 5m", None, 300), ("none", None, 0)]
)
def test_what_a_day_waits_for(write: Callable[[str], Path], minimal: str, ready: str, marker: str | None, still_s: int):
    path = write(minimal.replace('path = "in/{day}"', f'path = "in/{{day}}"\nready = "{ready}"'))
    source = load_deployment(path, environment={}).source
    assert (source.success_marker, source.stable_for_s) == (marker, still_s)


def test_times_without_a_zone_may_be_declared_to_be_utc(write: Callable[[str], Path], minimal: str):
    seen = '[[contract.columns]]\nname = "seen"\ntype = "timestamp"\nzoneless_is_utc = true\n[model]'
    contract = load_deployment(write(minimal.replace("[model]", seen)), environment={}).contract
    assert contract.columns[-1].zoneless_is_utc


def test_the_data_root_is_a_folder_or_lies_on_s3(tmp_path, monkeypatch, write, minimal):
    with pytest.raises(ProfileError, match="'gs://bucket/x' is neither a folder nor on S3"):
        load_deployment(environment={"PROFILE_DATA": "gs://bucket/x"})
    for wrong in ("s3://", "s3:///x", "s3://a b/c"):
        with pytest.raises(ProfileError, match="set it to s3://bucket"):
            load_deployment(environment={"PROFILE_DATA": wrong, "PROFILE_WORK": str(tmp_path / "work")})
    on_s3 = {"PROFILE_DATA": "s3://bucket/x/", "PROFILE_WORK": str(tmp_path / "work")}
    home = load_deployment(write(minimal), environment=on_s3).layout.home
    assert home.parent == tmp_path / "work"
    assert json.loads((home / "_remote" / "url.json").read_text())["url"] == f"s3://bucket/x/{home.name}"
    with pytest.raises(ProfileError, match="a Delta table is many files"):
        load_deployment(write(minimal + '[export]\noffline = "delta"\n'), environment=on_s3)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_deployment(environment={"PROFILE_DATA": "~/scores"}).root == tmp_path / "scores"


def test_bounds_that_float64_does_not_tell_apart_stay_what_they_are(write, minimal):
    profile = load_profile(write(minimal.replace('"float64"', '"int64"\nminimum = 9007199254740993')))
    assert profile.contract.columns[0].minimum == 9007199254740993
