"""A day that two bundles scored: the users of each are judged by themselves."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest

from profile_assets.quality.baseline import Baseline, Baselines
from profile_assets.quality.gates import Limits, Rules, judge_scores
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, USERS_FILE, shard_file
from profile_assets.storage.parquet import ParquetSink
from profile_assets.users.contract import Contract

ROWS = 4000
EVENLY = np.arange(ROWS) / ROWS
FILES = [shard_file(0, 2), shard_file(1, 2)]
IS_CANARY = np.arange(ROWS) % 10 == 3  # in the second file
NOBODY = np.zeros(ROWS, bool)


def table(values: np.ndarray, is_canary: np.ndarray) -> pa.Table:
    return pa.table(
        {
            "user_id": [f"u{n}" for n in range(ROWS)],
            "score": pa.array(values, pa.float32(), from_pandas=False),
            "route": pa.array(np.where(is_canary, "canary", "full")),
        }
    )


@pytest.fixture
def judge(layout, day, stage, committed):
    def run(values, *, is_canary=IS_CANARY, before=None, before_canary=None, unknown=0):
        users = table(values, is_canary)
        parts = {name: users.take(pa.array(range(n, ROWS, 2), pa.int64())) for n, name in enumerate(FILES)}
        ids = {name: part.select(["user_id"]) for name, part in parts.items()}
        raw = committed(RAW_USERS, {USERS_FILE: users.select(["user_id"])})
        shards = committed(USER_SHARDS, ids, made_from={RAW_USERS: raw.digest})
        rows = {name: sum(part["route"].to_numpy() == "canary") for name, part in parts.items()}
        none = {"unknown": {"plan": 0}, "unknown_by_shard": {name: {"plan": 0} for name in FILES}}
        theirs = {
            "unknown": {"plan": unknown},
            "unknown_by_shard": {FILES[0]: {"plan": 0}, FILES[1]: {"plan": unknown}},
        }
        canary = {"bundle_id": "b-2", "rows": int(sum(rows.values())), "histograms": {}, **theirs}
        canary["rows_by_shard"] = {name: int(count) for name, count in rows.items()}
        facts = {"bundle_id": "b-1", **none, "canary": canary}
        staged = stage(USER_SCORES, parts, made_from={USER_SHARDS: shards.digest}, facts=facts)
        baseline = None
        if before is not None:
            baseline = publish(layout, day, before, before_canary)
        limits = Limits(min_rows=1, max_row_change=0.5, max_null_rate_change=0.1, min_drift_rows=100)
        rules = Rules(contract=Contract(id="id", columns=()), limits=limits)
        found = judge_scores(layout, day, staged, rules, Baselines(newest=baseline), None)
        return {outcome.check: outcome for outcome in found}

    return run


def publish(layout, day, values, is_canary):
    before = day.replace(day=day.day - 1)
    path = layout.offline_part(before)
    path.parent.mkdir(parents=True)
    rows = table(values, NOBODY if is_canary is None else is_canary)
    with ParquetSink(path, rows.schema) as sink:
        sink.write(rows)
    plain = Baseline(day=before, rows=ROWS, null_rates={}, digest="d", bundle_id="b-1")
    return plain if is_canary is None else dataclasses.replace(plain, canary_id="b-2")


def test_two_groups_that_are_alike_pass(judge):
    found = judge(EVENLY, before=EVENLY)
    assert {outcome.result for outcome in found.values()} <= {"pass", "no_baseline", "not_evaluated"}
    looked = {row["column"] for row in found["score_drift"].table}
    assert looked == {"score", "score (canary)"}


def test_a_canary_that_drifts_alone_stops_the_day_and_is_named(judge):
    odd = np.where(IS_CANARY, 0.99, EVENLY)
    found = judge(odd, before=EVENLY)["score_drift"]
    assert found.result == "fail"
    assert [row["result"] for row in found.table] == ["pass", "fail"]
    assert "score (canary)" in found.detail
    assert "models canary --withdraw" in found.detail


def test_the_others_that_drift_are_not_the_canarys_fault(judge):
    found = judge(np.where(IS_CANARY, EVENLY, 0.99), before=EVENLY)["score_drift"]
    assert [row["result"] for row in found.table] == ["fail", "pass"]
    assert "withdraw" not in found.detail


def test_a_canary_is_held_against_its_own_users_where_it_had_some_the_day_before(judge):
    odd = np.where(IS_CANARY, 0.99, EVENLY)
    assert judge(odd, before=odd, before_canary=IS_CANARY)["score_drift"].result == "pass"


@pytest.mark.parametrize("value", [math.nan, 1.5, -0.5])
def test_one_score_of_the_canary_that_is_none_fails(judge, value):
    values = EVENLY.copy()
    values[13] = value
    found = judge(values)["scores_valid"]
    assert found.result == "fail"
    assert "score (canary)" in found.detail


def test_unknown_categories_are_counted_over_its_own_users(judge):
    found = judge(EVENLY, unknown=200)["unknown_categories"]
    assert found.result == "fail"
    assert "plan (canary) is 0.5" in found.detail


def test_a_share_in_which_nobody_is_says_nothing(judge):
    found = judge(EVENLY, is_canary=NOBODY, before=EVENLY)
    assert found["scores_valid"].result == found["score_drift"].result == "pass"
