"""A release lets exactly one piece of data through exactly one check, and dies with it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import pytest

from profile_assets.errors import CorruptError, GateError
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS, Layout
from profile_assets.storage.outcomes import UNRELEASABLE
from profile_assets.storage.records import Manifest
from profile_assets.storage.releases import release
from profile_assets.storage.stages import commit, seal
from profile_assets.storage.verdicts import (
    CHECKS,
    Outcome,
    Release,
    StageVerdict,
    Verdict,
    read_verdict,
    record,
    require_passed,
    write_verdict,
)

DAY = dt.date(2026, 1, 5)
AT = dt.datetime(2026, 1, 6, 8, tzinfo=dt.UTC)
SAID = {"by": "ada", "at": AT, "why": "half of the shops were closed"}


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path, name="purchase_30d")


@pytest.fixture
def judged(layout):
    """Stage data of a stage and record that it passed all its checks but those named; the staged data."""

    def build(stage=RAW_USERS, version=1, **changed):
        layout.staging(stage, DAY).mkdir(parents=True, exist_ok=True)
        manifest = Manifest(stage=stage, day=DAY.isoformat(), files=(), made_from={}, facts={"version": version})
        staged = seal(layout, DAY, manifest)
        outcomes = tuple(
            Outcome(check=check, result=changed.get(check, "pass"), detail="as told") for check in CHECKS[stage]
        )
        record(layout, DAY, StageVerdict(stage=stage, digest=manifest.digest, outcomes=outcomes))
        return staged

    return build


def passes(layout, staged):
    """Whether the day would be let through with this data."""
    try:
        require_passed(read_verdict(layout, DAY), {staged.manifest.stage: staged.manifest.digest})
    except GateError:
        return False
    return True


def test_a_release_lets_that_data_through_that_check_and_is_in_the_verdict(layout, judged):
    staged = judged(row_count_change="fail")
    assert not passes(layout, staged)
    before = read_verdict(layout, DAY).digest
    made = release(layout, DAY, "row_count_change", **SAID)
    assert passes(layout, staged)
    verdict = read_verdict(layout, DAY)
    assert verdict.stages[RAW_USERS].releases == (made,)
    assert verdict.digest != before
    assert (made.by, made.at, made.why) == ("ada", "2026-01-06T08:00:00+00:00", "half of the shops were closed")
    assert verdict.stages[RAW_USERS].outcome("row_count_change").result == "fail"


def test_another_check_of_the_same_data_still_stops_it(layout, judged):
    staged = judged(row_count_change="fail", min_rows="fail")
    release(layout, DAY, "row_count_change", **SAID)
    assert not passes(layout, staged)
    release(layout, DAY, "min_rows", **SAID)
    assert passes(layout, staged)


def test_the_same_data_judged_again_keeps_its_release(layout, judged):
    judged(row_count_change="fail")
    release(layout, DAY, "row_count_change", **SAID)
    assert passes(layout, judged(row_count_change="fail"))


def test_other_data_of_the_stage_forgets_it_for_good(layout, judged):
    judged(row_count_change="fail")
    release(layout, DAY, "row_count_change", **SAID)
    assert not passes(layout, judged(version=2, row_count_change="fail"))
    assert not passes(layout, judged(version=1, row_count_change="fail"))


def test_other_data_of_an_earlier_stage_forgets_it_too(layout, judged):
    judged(RAW_USERS)
    shards = judged(USER_SHARDS, null_rates="fail")
    release(layout, DAY, "null_rates", **SAID)
    judged(RAW_USERS, version=2)
    assert USER_SHARDS not in read_verdict(layout, DAY).stages
    assert not passes(layout, judged(USER_SHARDS, null_rates="fail"))
    assert shards.manifest.stage == USER_SHARDS


def test_a_release_of_another_digest_is_worth_nothing(layout, judged):
    staged = judged(row_count_change="fail")
    release(layout, DAY, "row_count_change", **SAID)
    verdict = read_verdict(layout, DAY)
    stage = verdict.stages[RAW_USERS]
    other = tuple(dataclasses.replace(one, digest="other") for one in stage.releases)
    write_verdict(layout, Verdict(day=DAY, stages={RAW_USERS: dataclasses.replace(stage, releases=other)}))
    assert not passes(layout, staged)


@pytest.mark.parametrize("check", sorted(UNRELEASABLE - {"rows_match_scores"}))
def test_nobody_can_let_lost_or_doubled_rows_through(layout, judged, check):
    stage = next(stage for stage, checks in CHECKS.items() if check in checks)
    staged = judged(stage, **{check: "fail"})
    with pytest.raises(GateError, match="lost or doubled"):
        release(layout, DAY, check, **SAID)
    # Not even by writing it into the record.
    said = (Release(check=check, digest=staged.manifest.digest, by="x", at="x", why="x"),)
    found = read_verdict(layout, DAY).stages[stage]
    write_verdict(layout, Verdict(day=DAY, stages={stage: dataclasses.replace(found, releases=said)}))
    assert not passes(layout, staged)


def test_a_release_that_is_written_into_the_record_by_hand_is_an_error(layout, judged):
    staged = judged(row_count_change="fail")
    path = layout.verdict(DAY)
    value = json.loads(path.read_text())
    said = {"check": "row_count_change", "digest": staged.manifest.digest, "by": "x", "at": "x", "why": "x"}
    value["stages"][RAW_USERS]["releases"] = [said]
    path.write_text(json.dumps(value))
    with pytest.raises(CorruptError, match="was changed"):
        read_verdict(layout, DAY)


@pytest.mark.parametrize("result", ["pass", "no_baseline", "not_evaluated"])
def test_only_a_check_that_failed_can_be_released(layout, judged, result):
    judged(row_count_change=result)
    with pytest.raises(GateError, match=f"its result is {result}"):
        release(layout, DAY, "row_count_change", **SAID)


@pytest.mark.parametrize("why", ["", "  "])
def test_a_release_needs_a_reason(layout, judged, why):
    judged(row_count_change="fail")
    with pytest.raises(GateError, match="no reason"):
        release(layout, DAY, "row_count_change", by="ada", at=AT, why=why)


def test_a_misspelt_check_is_told_beside_those_that_stopped_the_day(layout, judged):
    judged(row_count_change="fail")
    with pytest.raises(GateError, match=r"never judged.*row_count_change"):
        release(layout, DAY, "row_count_chagne", **SAID)


def test_a_day_that_was_never_judged_has_nothing_to_release(layout):
    with pytest.raises(GateError, match="never judged"):
        release(layout, DAY, "min_rows", **SAID)


def test_data_that_is_gone_cannot_be_released(layout, judged):
    staged = judged(row_count_change="fail")
    (staged.folder / "manifest.json").unlink()
    with pytest.raises(GateError, match="no longer there"):
        release(layout, DAY, "row_count_change", **SAID)


def test_data_that_was_staged_anew_since_cannot_be_released(layout, judged):
    judged(row_count_change="fail")
    seal(layout, DAY, Manifest(stage=RAW_USERS, day=DAY.isoformat(), files=(), made_from={"source": "other"}))
    with pytest.raises(GateError, match="no longer there"):
        release(layout, DAY, "row_count_change", **SAID)


def test_data_that_is_the_days_already_can_be_released_when_it_is_judged_again_and_fails(layout, judged):
    staged = judged(row_count_change="fail")
    commit(layout, DAY, staged)
    release(layout, DAY, "row_count_change", **SAID)
    assert passes(layout, staged)


def test_a_bent_release_is_an_error(layout, judged):
    judged(row_count_change="fail")
    release(layout, DAY, "row_count_change", **SAID)
    path = layout.verdict(DAY)
    path.write_text(path.read_text().replace('"why"', '"wyh"'))
    with pytest.raises(CorruptError, match="2026-01-05"):
        read_verdict(layout, DAY)
