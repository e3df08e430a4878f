"""Gates, publication and baseline together: a day is judged against what the day before published."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import GateError
from profile_assets.quality.gates import Limits, find_baseline, judge_export, judge_raw, judge_scores, judge_shards
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS
from profile_assets.storage.stages import Staged, current
from profile_assets.storage.verdicts import StageVerdict, read_verdict, record
from profile_assets.users.contract import Column, Contract

LIMITS = Limits(min_rows=1, max_row_change=0.5, max_null_rate_change=0.1)
CONTRACT = Contract(id="id", columns=(Column(name="plan", type=pa.string()),))
USERS = {f"user-{n}": "basic" for n in range(20)}


def users(plans):
    return pa.table({"user_id": pa.array(plans.keys(), pa.string()), "plan": pa.array(plans.values(), pa.string())})


@pytest.fixture
def judged(pipeline, layout):
    """Bring a day through its gates, as the assets do; nothing is published."""

    def run(day, plans):
        ids = list(plans)
        raw = pipeline.stage(RAW_USERS, day, {"users.parquet": users(plans)}, {})
        pipeline.score(day, pipeline.split(day, raw, ids), ids)
        baseline = find_baseline(layout, day)
        for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
            staged = Staged(folder=layout.stage(stage, day), manifest=current(layout, stage, day))
            outcomes = {
                RAW_USERS: lambda staged=staged: judge_raw(staged, CONTRACT, LIMITS, baseline),
                USER_SHARDS: lambda staged=staged: judge_shards(layout, day, staged),
                USER_SCORES: lambda staged=staged: judge_scores(layout, day, staged, LIMITS),
            }[stage]()
            record(layout, day, StageVerdict(stage=stage, digest=staged.manifest.digest, outcomes=outcomes))

    return run


def test_two_days_in_a_row_are_published_and_the_second_was_compared_with_the_first(pipeline, layout, day, judged):
    before = day - dt.timedelta(days=1)
    judged(before, USERS)
    assert read_verdict(layout, before).stages[RAW_USERS].outcome("null_rates").result == "no_baseline"
    published = pipeline.publish(before)
    assert published.null_rates == {"user_id": 0.0, "plan": 0.0}
    judged(day, USERS | {"user-0": ""})
    outcome = read_verdict(layout, day).stages[RAW_USERS].outcome("null_rates")
    assert (outcome.result, outcome.baseline) == ("pass", 0.0)
    assert pipeline.publish(day).null_rates == {"user_id": 0.0, "plan": 0.05}
    assert [outcome.result for outcome in judge_export(layout, day)] == ["pass"]


@pytest.mark.parametrize("plans", [dict(list(USERS.items())[:9]), USERS | dict.fromkeys(list(USERS)[:3])])
def test_a_day_unlike_the_published_one_before_is_refused(pipeline, day, judged, plans):
    before = day - dt.timedelta(days=1)
    judged(before, USERS)
    pipeline.publish(before)
    judged(day, plans)
    with pytest.raises(GateError, match=r"row_count_change|null_rates"):
        pipeline.publish(day)


def test_an_export_of_scores_that_are_no_longer_the_days_fails(pipeline, layout, day, judged):
    judged(day, USERS)
    pipeline.publish(day)
    judged(day, USERS | {"user-20": "basic"})
    (outcome,) = judge_export(layout, day)
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 20, 21)
