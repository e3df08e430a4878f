"""Gates, publication and baseline together: a day is judged against what the day before published."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import GateError
from profile_assets.quality.gates import (
    Limits,
    Rules,
    find_baselines,
    judge_export,
    judge_raw,
    judge_scores,
    judge_shards,
)
from profile_assets.quality.measures import Meter
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import QUARANTINE_FILE, RAW_USERS, USER_SCORES, USER_SHARDS, shard_file
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.stages import Staged, current
from profile_assets.storage.verdicts import StageVerdict, read_verdict, record
from profile_assets.users.contract import Column, Contract
from profile_assets.users.quarantine import SCHEMA

CONTRACT = Contract(id="id", columns=(Column(name="plan", type=pa.string()),))
RULES = Rules(contract=CONTRACT, limits=Limits(min_rows=1, max_row_change=0.5, max_null_rate_change=0.1))
SHARDS = [shard_file(0, 2), shard_file(1, 2)]
USERS = {f"user-{n}": "basic" for n in range(2000)}


def users(plans):
    return pa.table({"user_id": pa.array(plans.keys(), pa.string()), "plan": pa.array(plans.values(), pa.string())})


@pytest.fixture
def judged(pipeline, layout):
    """Bring a day through its gates, as the assets do; nothing is published."""

    def run(day, plans):
        ids = list(plans)
        read = {"read": len(ids), "quarantined": 0, "quarantined_keys": KeySet().to_json()}
        aside = layout.quarantine(day)
        aside.mkdir(parents=True, exist_ok=True)
        with ParquetSink(aside / QUARANTINE_FILE, SCHEMA):
            pass
        table = users(plans)
        raw = pipeline.stage(RAW_USERS, day, {"users.parquet": table}, {}, **read)
        tables = {name: table.take(pa.array(range(n, len(ids), 2), pa.int64())) for n, name in enumerate(SHARDS)}
        shards = pipeline.stage(USER_SHARDS, day, tables, {RAW_USERS: raw.digest})
        pipeline.score(day, shards, ids, values=[n % 100 / 100 for n in range(len(ids))])
        baselines = find_baselines(layout, day)
        for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
            staged = Staged(folder=layout.stage(stage, day), manifest=current(layout, stage, day))
            outcomes = {
                RAW_USERS: lambda it=staged: judge_raw(layout, day, it, RULES, baselines),
                USER_SHARDS: lambda it=staged: judge_shards(
                    layout, day, it, RULES, baselines, Meter(contract=CONTRACT)
                ),
                USER_SCORES: lambda it=staged: judge_scores(layout, day, it, RULES, baselines, None),
            }[stage]()
            record(layout, day, StageVerdict(stage=stage, digest=staged.manifest.digest, outcomes=outcomes))

    return run


def test_two_days_in_a_row_are_published_and_the_second_was_compared_with_the_first(pipeline, layout, day, judged):
    before = day - dt.timedelta(days=1)
    judged(before, USERS)
    assert read_verdict(layout, before).stages[USER_SHARDS].outcome("null_rate_change").result == "no_baseline"
    published = pipeline.publish(before)
    assert published.null_rates == {"user_id": 0.0, "plan": 0.0}
    judged(day, USERS | {"user-0": ""})
    outcome = read_verdict(layout, day).stages[USER_SHARDS].outcome("null_rate_change")
    assert (outcome.result, outcome.baseline) == ("pass", 0.0)
    assert pipeline.publish(day).null_rates == {"user_id": 0.0, "plan": 0.0005}
    assert [outcome.result for outcome in judge_export(layout, day)] == ["pass"]


@pytest.mark.parametrize("plans", [dict(list(USERS.items())[:900]), USERS | dict.fromkeys(list(USERS)[:300])])
def test_a_day_unlike_the_published_one_before_is_refused(pipeline, day, judged, plans):
    before = day - dt.timedelta(days=1)
    judged(before, USERS)
    pipeline.publish(before)
    judged(day, plans)
    with pytest.raises(GateError, match=r"row_count_change|null_rate_change"):
        pipeline.publish(day)


def test_an_export_of_scores_that_are_no_longer_the_days_fails(pipeline, layout, day, judged):
    judged(day, USERS)
    pipeline.publish(day)
    judged(day, USERS | {"user-2000": "basic"})
    (outcome,) = judge_export(layout, day)
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 2000, 2001)
