"""When a day may be read: a marker, files that lie still, or nothing to wait for; and whether it was restated since."""

from __future__ import annotations

import datetime as dt
import os

import pytest

from profile_assets.errors import SourceError
from profile_assets.users.land import commit_landing, land
from profile_assets.users.source import find_day, parse_ready
from profile_assets.users.taking import change_of, sighted

DAY = dt.date(2026, 1, 5)
WRITTEN = dt.datetime(2026, 1, 6, 1, tzinfo=dt.UTC)
LATER = WRITTEN + dt.timedelta(hours=9)


def at(path, moment: dt.datetime):
    os.utime(path, (moment.timestamp(), moment.timestamp()))
    return path


def test_what_is_waited_for_is_spelt_so() -> None:
    assert parse_ready("_SUCCESS").success_marker == "_SUCCESS"
    assert (parse_ready("none").success_marker, parse_ready("none").stable_for_s) == (None, 0)
    assert [parse_ready(f"stable_for {text}").stable_for_s for text in ("90s", "5m", "2h")] == [90, 300, 7200]


@pytest.mark.parametrize("text", ["", "success", "stable_for", "stable_for 5", "stable_for 0m", "stable_for 1d"])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of"):
        parse_ready(text)


@pytest.mark.parametrize(("seconds", "is_ready"), [(0, False), (299, False), (300, True), (9_999_999, True)])
def test_files_must_have_lain_still(bench, seconds: int, is_ready: bool) -> None:
    at(bench.write("a.parquet", b"x"), WRITTEN - dt.timedelta(days=1))
    at(bench.write("b.parquet", b"x"), WRITTEN)
    settings, now = bench.settings(stable_for_s=300), WRITTEN + dt.timedelta(seconds=seconds)
    assert (sighted(settings, DAY, now).waits_for is None) == is_ready
    if is_ready:
        assert len(find_day(settings, DAY, now=now).files) == 2
    else:
        with pytest.raises(SourceError, match=rf"changed {seconds} s ago, and must be still for 300 s"):
            find_day(settings, DAY, now=now)


def test_a_time_in_the_future_is_not_waited_for(bench) -> None:
    at(bench.write("a.parquet", b"x"), WRITTEN + dt.timedelta(days=400))
    assert sighted(bench.settings(stable_for_s=300), DAY, WRITTEN).waits_for is None


def test_a_day_that_is_not_there_waits_whatever_the_rule(bench) -> None:
    for more in ({}, {"stable_for_s": 300}):
        assert sighted(bench.settings(**more), DAY, LATER).waits_for == "has no files"
    assert sighted(bench.settings(success_marker="_SUCCESS"), DAY, LATER).waits_for == "has no _SUCCESS"


def test_a_marker_alone_is_no_day(bench) -> None:
    bench.write("_SUCCESS", b"")
    assert sighted(bench.settings(success_marker="_SUCCESS"), DAY, LATER).waits_for == "has no files"


@pytest.fixture
def landed(bench, contract):
    bench.write("_SUCCESS", b"")
    path = bench.parquet({"uid": ["a", "b"], "x": [1, 2]})
    settings = bench.settings(success_marker="_SUCCESS")
    manifest = commit_landing(bench.layout, DAY, land(settings, contract(x="int8"), DAY, bench.layout))
    return settings, manifest, path


def test_an_untouched_source_is_the_same_and_is_not_read(contract, landed, monkeypatch) -> None:
    settings, manifest, _ = landed
    monkeypatch.setattr("profile_assets.users.taking.source_digest", lambda *_: pytest.fail("it was read"))
    assert change_of(settings, contract(x="int8"), DAY, manifest, LATER) == "same"


def test_a_source_that_was_only_touched_is_the_same(contract, landed) -> None:
    settings, manifest, path = landed
    at(path, WRITTEN)
    assert change_of(settings, contract(x="int8"), DAY, manifest, LATER) == "same"


def test_a_restated_source_is_noticed_and_a_removed_one_told_apart(bench, contract, landed) -> None:
    settings, manifest, path = landed
    bench.parquet({"uid": ["a", "b"], "x": [1, 3]})
    assert change_of(settings, contract(x="int8"), DAY, manifest, LATER) == "restated"
    (bench.folder() / "_SUCCESS").unlink()
    assert change_of(settings, contract(x="int8"), DAY, manifest, LATER) == "not ready"
    path.unlink()
    assert change_of(settings, contract(x="int8"), DAY, manifest, LATER) == "gone"


def test_what_landed_by_another_contract_cannot_be_compared(contract, landed) -> None:
    settings, manifest, _ = landed
    assert change_of(settings, contract(x="int16"), DAY, manifest, LATER) == "another contract"
