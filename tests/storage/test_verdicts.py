"""The recorded judgement: what it lets through, what it forgets, and what it refuses."""

from __future__ import annotations

import datetime as dt
import json
import math

import pytest

from profile_assets.errors import CorruptError, GateError
from profile_assets.storage.layout import EXPORT, RAW_USERS, STAGES, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.verdicts import (
    CHECKS,
    Outcome,
    StageVerdict,
    Verdict,
    read_verdict,
    record,
    require_passed,
)

DAY = dt.date(2026, 1, 5)


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path, name="purchase_30d")


def passed(stage, digest, **changed):
    """A stage that passed all its checks but those named, which have the result given."""
    results = {check: changed.get(check, "pass") for check in CHECKS[stage]}
    outcomes = tuple(Outcome(check=check, result=result, detail=result) for check, result in results.items())
    return StageVerdict(stage=stage, digest=digest, outcomes=outcomes)


def verdict_of(*stages):
    return Verdict(day=DAY, stages={stage.stage: stage for stage in stages})


def test_a_day_never_judged_has_no_verdict(layout):
    assert read_verdict(layout, DAY) is None


def test_a_verdict_comes_back_as_it_was_recorded(layout):
    table = ({"column": "age", "observed": 0.5, "limit": 0.0, "baseline": None, "result": "fail"},)
    outcome = Outcome(
        check="null_rates",
        result="fail",
        observed=0.5,
        limit=0.0,
        detail="",
        table=table,
        severity="warn",
        evaluated=3,
        answers=({"expectation": "expect_column_values_to_not_be_null", "success": False, "unexpected_count": 2},),
    )
    baseline = {
        "baseline_day": DAY - dt.timedelta(days=1),
        "baseline_digest": "abc",
        "weekday_day": DAY - dt.timedelta(days=7),
        "weekday_digest": "def",
    }
    written = StageVerdict(stage=RAW_USERS, digest="d", outcomes=(outcome,), **baseline)
    record(layout, DAY, written)
    assert read_verdict(layout, DAY) == verdict_of(written)


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_infinity_is_recorded_as_what_it_is(layout, number):
    outcome = Outcome(check="ranges", result="fail", observed=number, detail="", table=({"observed": number},))
    record(layout, DAY, StageVerdict(stage=RAW_USERS, digest="d", outcomes=(outcome,)))
    (read,) = read_verdict(layout, DAY).stages[RAW_USERS].outcomes
    assert read.observed == number
    assert read.table == ({"observed": str(number)},)


def test_nan_is_recorded_as_what_it_is(layout):
    outcome = Outcome(check="ranges", result="not_evaluated", observed=math.nan, detail="")
    record(layout, DAY, StageVerdict(stage=RAW_USERS, digest="d", outcomes=(outcome,)))
    assert math.isnan(read_verdict(layout, DAY).stages[RAW_USERS].outcomes[0].observed)


def test_judging_other_data_of_a_stage_forgets_the_stages_after_it_only(layout):
    for stage in STAGES:
        record(layout, DAY, passed(stage, "old"))
    record(layout, DAY, passed(USER_SHARDS, "new"))
    assert read_verdict(layout, DAY) == verdict_of(passed(RAW_USERS, "old"), passed(USER_SHARDS, "new"))


def test_judging_the_same_data_again_replaces_its_own_verdict_only(layout):
    for stage in STAGES:
        record(layout, DAY, passed(stage, "same"))
    record(layout, DAY, passed(RAW_USERS, "same", min_rows="fail"))
    stages = read_verdict(layout, DAY).stages
    assert stages.keys() == set(STAGES)
    assert stages[RAW_USERS].outcome("min_rows").result == "fail"


def test_judging_a_day_touches_no_other_day(layout):
    other = DAY - dt.timedelta(days=1)
    record(layout, other, passed(RAW_USERS, "other"))
    before = layout.verdict(other).read_bytes()
    record(layout, DAY, passed(RAW_USERS, "d"))
    assert layout.verdict(other).read_bytes() == before


def test_a_day_that_passed_on_these_digests_is_let_through():
    verdict = verdict_of(passed(RAW_USERS, "a", row_count_change="no_baseline"), passed(USER_SHARDS, "b"))
    require_passed(verdict, {RAW_USERS: "a", USER_SHARDS: "b"})


@pytest.mark.parametrize("result", ["fail", "not_evaluated"])
@pytest.mark.parametrize("check", CHECKS[RAW_USERS])
def test_no_check_that_did_not_pass_is_let_through(check, result):
    verdict = verdict_of(passed(RAW_USERS, "a", **{check: result}))
    with pytest.raises(GateError, match=f"{check} .{result}"):
        require_passed(verdict, {RAW_USERS: "a"})


def test_a_failure_that_only_warns_is_let_through_and_one_not_evaluated_is_not():
    whole = passed(USER_SCORES, "a")

    def with_drift(result):
        drift = Outcome(check="feature_drift", result=result, severity="warn", detail="")
        others = tuple(one for one in whole.outcomes if one.check != "feature_drift")
        return verdict_of(StageVerdict(stage=USER_SCORES, digest="a", outcomes=(*others, drift)))

    require_passed(with_drift("fail"), {USER_SCORES: "a"})
    with pytest.raises(GateError, match=r"feature_drift \(not_evaluated"):
        require_passed(with_drift("not_evaluated"), {USER_SCORES: "a"})


@pytest.mark.parametrize("check", CHECKS[USER_SCORES])
def test_a_check_that_is_not_in_the_verdict_is_not_passed(check):
    whole = passed(USER_SCORES, "a")
    left = tuple(outcome for outcome in whole.outcomes if outcome.check != check)
    with pytest.raises(GateError, match=f"{check} was not evaluated"):
        require_passed(verdict_of(StageVerdict(stage=USER_SCORES, digest="a", outcomes=left)), {USER_SCORES: "a"})


def test_a_pass_beside_a_fail_of_the_same_check_is_no_pass():
    both = (*passed(USER_SHARDS, "a").outcomes, *passed(USER_SHARDS, "a", rows_match_raw="fail").outcomes)
    with pytest.raises(GateError, match="rows_match_raw"):
        require_passed(verdict_of(StageVerdict(stage=USER_SHARDS, digest="a", outcomes=both)), {USER_SHARDS: "a"})


def test_every_reason_is_told_at_once():
    verdict = verdict_of(passed(RAW_USERS, "a", min_rows="fail"), passed(USER_SHARDS, "old"))
    with pytest.raises(GateError) as raised:
        require_passed(verdict, {RAW_USERS: "a", USER_SHARDS: "b", USER_SCORES: "c"})
    told = str(raised.value)
    for reason in ("2026-01-05", "min_rows", "user_shards was judged as old", "user_scores was never judged"):
        assert reason in told


def test_the_digest_of_a_verdict_is_that_of_what_came_before_the_export():
    raw, export = passed(RAW_USERS, "a"), passed(EXPORT, "x")
    assert verdict_of(raw, export).digest == verdict_of(raw).digest
    assert verdict_of(raw).digest != verdict_of(passed(RAW_USERS, "b")).digest


@pytest.mark.parametrize("change", [{"day": "2026-01-06"}, {"stages": 3}, {"stages": {"raw_users": {}}}, {"format": 9}])
def test_a_bent_verdict_is_an_error_and_never_an_absence(layout, change):
    record(layout, DAY, passed(RAW_USERS, "a"))
    path = layout.verdict(DAY)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptError, match="2026-01-05"):
        read_verdict(layout, DAY)


@pytest.mark.parametrize("content", ["{}", "", "[]", '{"format": 1}'])
def test_judging_a_day_again_overwrites_a_verdict_that_cannot_be_read(layout, content):
    for stage in STAGES:
        record(layout, DAY, passed(stage, "a"))
    layout.verdict(DAY).write_text(content)
    with pytest.raises(CorruptError):
        read_verdict(layout, DAY)
    record(layout, DAY, passed(USER_SHARDS, "a"))
    assert read_verdict(layout, DAY) == verdict_of(passed(USER_SHARDS, "a"))
    with pytest.raises(GateError, match="raw_users was never judged"):
        require_passed(read_verdict(layout, DAY), {RAW_USERS: "a", USER_SHARDS: "a"})


def test_a_fail_that_was_made_a_pass_by_hand_is_an_error(layout):
    record(layout, DAY, passed(RAW_USERS, "a", min_rows="fail"))
    path = layout.verdict(DAY)
    path.write_text(path.read_text().replace('"fail"', '"pass"'))
    with pytest.raises(CorruptError, match="was changed"):
        read_verdict(layout, DAY)


def test_an_unknown_result_is_an_error(layout):
    record(layout, DAY, passed(RAW_USERS, "a"))
    path = layout.verdict(DAY)
    path.write_text(path.read_text().replace('"pass"', '"PASS"'))
    with pytest.raises(CorruptError, match="PASS"):
        read_verdict(layout, DAY)
