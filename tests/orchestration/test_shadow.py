"""A bundle beside what is published: what it shows, and that nothing it does reaches readers."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from profile_assets.cli import app
from profile_assets.errors import DataError
from profile_assets.models.registry import set_first_stable, set_pointer
from profile_assets.storage.layout import SHADOW
from profile_assets.storage.records import read_json
from profile_assets.storage.share import in_share

DAY, NEXT = dt.date(2026, 1, 5), dt.date(2026, 1, 6)
LIMITED = '\n[shadow]\nsegment = "plan"\nlimit_minutes = {minutes}\nshare = {share}\n'


@pytest.fixture
def make(make_small: Callable[[str], Any]) -> Callable[..., Any]:
    """A published day, and a shadow that the registry names."""

    def build(*, minutes: float = 10, share: float = 1.0, seed: int = 2, architecture: str = "") -> Any:
        small = make_small(LIMITED.format(minutes=minutes, share=share))
        small.put_users(DAY)
        set_first_stable(small.layout, small.put_model(1), "the first")
        small.session.score(DAY)
        shadow = small.put_model(seed, architecture=architecture)
        set_pointer(small.layout, "shadow", shadow, by="ana", why="is it better?")
        return small

    return build


def published(small: Any) -> dict[Path, bytes]:
    """Every byte of the day but the shadow's own, and what the registry and the records say."""
    home = small.layout.home
    return {
        path.relative_to(home): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and path.relative_to(home).parts[0] not in (SHADOW, "_locks", "_staging")
    }


def test_it_is_scored_and_compared_and_readers_see_nothing_of_it(make: Callable[..., Any]):
    small = make()
    before, seen = published(small), small.rows(DAY)
    small.session.shadow(DAY)
    assert published(small) == before
    shown = small.shown(SHADOW)
    assert shown["dagster/row_count"] == 400
    assert shown["published_bundle_id"] == seen["user-0000"]["bundle_id"] != shown["bundle_id"]
    assert {"psi", "rank_correlation", "top_1_percent_overlap", "us_per_user", "disagreeing"} <= set(shown)
    assert -1 <= shown["rank_correlation"] <= 1
    for picture in ("published_scores", "shadow_scores", "differences"):
        assert len(shown[picture]) < 1000
    assert {record.data["segment"] for record in shown["segments"]} == {"free", "paid"}

    folder = small.layout.stage(SHADOW, DAY)
    theirs = {row["user_id"]: row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()}
    assert theirs.keys() == seen.keys()
    assert {row["bundle_id"] for row in theirs.values()} == {shown["bundle_id"]}
    mean = sum(row["score"] for row in theirs.values()) / len(theirs)
    assert shown["shadow_mean"] == pytest.approx(mean)
    apart = [abs(theirs[user]["score"] - seen[user]["score"]) for user in seen]
    assert shown["mean_difference"] == pytest.approx(sum(apart) / len(apart))
    small.put_users(NEXT)
    small.session.score(NEXT)
    small.session.shadow(NEXT)
    assert not folder.exists(), "only the newest one's scores are kept"
    assert read_json(small.layout.shadow_report(DAY))["day"] == str(DAY)


def test_a_shadow_that_is_the_published_bundle_differs_in_nothing(make: Callable[..., Any]):
    small = make(seed=1)
    small.session.shadow(DAY)
    shown = small.shown(SHADOW)
    assert (shown["largest_difference"], shown["psi"], shown["disagreeing"]) == (0.0, 0.0, 0)


def test_a_share_is_scored_and_compared_by_itself(make: Callable[..., Any]):
    small = make(share=0.3)
    small.session.shadow(DAY)
    import pyarrow as pa

    wanted = int(in_share(pa.array(sorted(small.rows(DAY))), 0.3, "shadow").sum())
    assert small.shown(SHADOW)["dagster/row_count"] == wanted
    assert 80 < wanted < 160


@pytest.fixture
def bad(make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A shadow whose network does what it is asked to."""
    folder = tmp_path / "bad"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("bad_networks.py"), folder / "networks_of_a_shadow.py")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "networks_of_a_shadow", raising=False)
    monkeypatch.setenv("BAD_NETWORKS", str(folder))

    def build(what: str, *, minutes: float = 10) -> Any:
        small = make(minutes=minutes, architecture="networks_of_a_shadow:Bad")
        (folder / what).touch()
        return small

    return build


@pytest.mark.parametrize(
    ("what", "told"),
    [("raise", "cannot be used|ended without an answer"), ("nonsense", "cannot be used|no probability")],
)
def test_one_that_raises_or_gives_nonsense_fails_alone(bad: Callable[..., Any], what: str, told: str):
    small = bad(what)
    before = published(small)
    with pytest.raises(DataError, match=told):
        small.session.shadow(DAY)
    assert published(small) == before
    assert not small.layout.stage(SHADOW, DAY).exists()


def test_one_that_hangs_is_ended_at_the_limit_and_no_process_of_it_is_left(bad: Callable[..., Any], tmp_path: Path):
    small = bad("hang", minutes=0.25)
    before = published(small)
    with pytest.raises(DataError, match="was not done after 15 s, and its process was ended"):
        small.session.shadow(DAY)
    assert published(small) == before
    pid = tmp_path / "bad" / "pid"
    assert not pid.exists() or not psutil.pid_exists(int(pid.read_text()))
    small.session.score(DAY)
    assert published(small) == before, "and the day can be run again at once"


def test_a_day_that_is_not_published_has_no_shadow(make: Callable[..., Any]):
    small = make()
    small.put_users(NEXT)
    with pytest.raises(DataError, match=f"{NEXT} is not published"):
        small.session.shadow(NEXT)


def test_without_a_shadow_nothing_is_done_and_the_command_says_how_to_name_one(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    small = make()
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    told = {"PROFILE_DATA": tmp_path, "PROFILE_CONFIG": tmp_path / "small.toml", "DAGSTER_HOME": home, "COLUMNS": 200}
    for name, value in told.items():
        monkeypatch.setenv(name, str(value))
    done = CliRunner().invoke(app, ["shadow", str(DAY), "--json"])
    found = json.loads(done.stdout)
    assert (found["rows"], found["segment"]) == (400, "plan"), done.output
    gone = CliRunner().invoke(app, ["models", "shadow", "--withdraw", "--why", "enough"])
    assert "there is no shadow" in gone.stdout, gone.output
    again = CliRunner().invoke(app, ["shadow", str(DAY)])
    assert "models shadow ID" in str(again.exception)
    small.session.shadow(DAY)
    event = small.session.instance.get_latest_materialization_event(dg.AssetKey(["small", SHADOW]))
    assert event is None


def test_every_night_yesterday_is_scored_where_there_is_a_shadow_and_a_published_day(make: Callable[..., Any]):
    small = make()
    schedule = small.session.definitions.resolve_schedule_def("small_shadow_nightly")
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED

    def tick(day: int) -> Any:
        moment = dt.datetime(2026, 1, day, 4, tzinfo=dt.UTC)
        repository = small.session.definitions.get_repository_def()
        with dg.build_schedule_context(scheduled_execution_time=moment, repository_def=repository) as context:
            return schedule.evaluate_tick(context)

    assert [request.partition_key for request in tick(6).run_requests] == [str(DAY)]
    assert tick(7).skip_message == "2026-01-06 is not published"
    set_pointer(small.layout, "shadow", None, by="ana", why="enough")
    assert tick(6).skip_message == "there is no shadow"


def test_a_day_that_was_made_again_since_has_no_shadow_until_it_is_published(make: Callable[..., Any]):
    from profile_assets.shards.split import split
    from profile_assets.storage.stages import commit

    small = make()
    commit(small.layout, DAY, split(small.layout, DAY, 3))
    with pytest.raises(DataError, match="are gone or new -> run the day and publish it"):
        small.session.shadow(DAY)
