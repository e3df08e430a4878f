"""The gate of the scores: of exactly the users of the shards, numbers, and not drifting; and that of the export."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import CorruptError
from profile_assets.features.bins import Bins, FeatureBins
from profile_assets.quality.baseline import Baseline, Baselines
from profile_assets.quality.gates import Limits, Rules, check_names, judge_export, judge_scores
from profile_assets.quality.scores_table import unknown_looks
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, USERS_FILE, shard_file
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import seal
from profile_assets.users.contract import Contract

LIMITS = {"min_rows": 1, "max_row_change": 0.5, "max_null_rate_change": 0.1}
SHARDS = [shard_file(0, 2), shard_file(1, 2)]
EVEN = tuple([0.1] * 10)
BINS = Bins(
    features={
        "age": FeatureBins(edges=(-1.0, 1.0), shares=(0.2, 0.6, 0.2, 0.0)),
        "plan": FeatureBins(levels=2, shares=(0.0, 0.0, 0.7, 0.3, 0.0)),
    },
    score=FeatureBins(edges=tuple(n / 10 for n in range(1, 10)), shares=EVEN),
)
ROWS = 4000
COUNTED = {"unknown": {"plan": 0}, "unknown_by_shard": {name: {"plan": 0} for name in SHARDS}}
EVENLY = np.arange(ROWS) / ROWS


def scores(ids, values):
    return pa.table({"user_id": pa.array(ids, pa.string()), "score": pa.array(values, pa.float32())})


def ids_only(ids):
    return pa.table({"user_id": pa.array(ids, pa.string())})


def dealt(values):
    """Scores of as many users, in two files."""
    ids = [f"u{n}" for n in range(len(values))]
    return [scores(ids[n::2], values[n::2]) for n in (0, 1)]


def results(found):
    return {name: outcome.result for name, outcome in found.items()}


@pytest.fixture
def judge(layout, day, stage, committed):
    """Judge score tables, one a shard, against shards of the users `of`; the outcomes by check.

    `before` are the scores that readers see of the day before, `facts` what was counted while scoring.
    """

    def run(*tables, of=None, before=None, bins=None, facts=None, baseline=None, **limits):
        of = of or [table["user_id"].to_pylist() for table in tables]
        raw = committed(RAW_USERS, {USERS_FILE: ids_only([one for ids in of for one in ids])})
        shards = committed(
            USER_SHARDS,
            {name: ids_only(ids) for name, ids in zip(SHARDS, of, strict=True)},
            made_from={"raw_users": raw.digest},
        )
        made_from = {USER_SHARDS: shards.digest}
        staged = stage(
            USER_SCORES, dict(zip(SHARDS, tables, strict=True)), made_from=made_from, facts={**COUNTED, **(facts or {})}
        )
        if before is not None:
            baseline = baseline or publish(layout, day, before)
        rules = Rules(contract=Contract(id="id", columns=()), limits=Limits(**{**LIMITS, **limits}))
        outcomes = judge_scores(layout, day, staged, rules, Baselines(newest=baseline), bins)
        return {outcome.check: outcome for outcome in outcomes}

    return run


def publish(layout, day, values):
    """The file of another day that readers see, and what is said of it."""
    before = day.replace(day=day.day - 1)
    path = layout.offline_part(before)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = scores([f"u{n}" for n in range(len(values))], values)
    with ParquetSink(path, table.schema) as sink:
        sink.write(table)
    return Baseline(day=before, rows=len(values), null_rates={}, digest="d", bundle_id="b-1")


def test_scores_within_zero_and_one_pass_every_check_of_their_stage(judge):
    facts = {"unknown": {"plan": 0}, "histograms": {"age": [800, 2400, 800, 0], "plan": [0, 0, 2800, 1200, 0]}}
    found = judge(*dealt(EVENLY), before=EVENLY, bins=BINS, facts=facts)
    assert tuple(found) == check_names()[USER_SCORES]
    assert set(results(found).values()) == {"pass"}


@pytest.mark.parametrize("odd", [None, math.nan, math.inf, -math.inf, 1.01, -0.01])
def test_a_score_that_is_none_fails(judge, odd):
    found = judge(scores(["a", "b"], [0.0, 1.0]), scores(["c", "d"], [0.5, odd]))
    assert found["scores_valid"].result == "fail"


@pytest.mark.parametrize("all_odd", [None, math.nan])
def test_scores_that_are_all_missing_do_not_pass(judge, all_odd):
    found = judge(scores(["a", "b"], [all_odd] * 2), scores(["c", "d"], [all_odd] * 2))
    assert not found["scores_valid"].lets_through


def test_limits_of_zero_are_limits_of_scores_too(judge):
    found = judge(scores(["a", "b"], [0.0, 0.0]), scores(["c", "d"], [0.0, 0.1]), score_maximum=0.0)
    assert found["scores_valid"].result == "fail"


def test_a_user_scored_twice_for_one_who_is_lost_fails(judge):
    tables = scores(["a", "b"], [0.0, 1.0]), scores(["c", "c"], [0.5, 0.5])
    outcome = judge(*tables, of=[["a", "b"], ["c", "d"]])["rows_match_shards"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 4, 4)
    assert outcome.table == ({"file": SHARDS[1], "rows": 2, "expected_rows": 2},)


def test_users_that_changed_shards_fail(judge):
    tables = scores(["a", "c"], [0.0, 1.0]), scores(["b", "d"], [0.5, 0.5])
    outcome = judge(*tables, of=[["a", "b"], ["c", "d"]])["rows_match_shards"]
    assert (outcome.result, outcome.detail) == ("fail", "2 files hold other users than those of user_shards")


def test_scores_without_a_score_are_not_evaluated(judge):
    found = judge(ids_only(["a", "b"]), ids_only(["c", "d"]))
    assert found["scores_valid"].result == "not_evaluated"


def test_scores_of_no_files_at_all_pass_nothing(layout, day, committed):
    raw = committed(RAW_USERS, {USERS_FILE: ids_only(["a"])})
    made_from = {USER_SHARDS: committed(USER_SHARDS, {}, made_from={RAW_USERS: raw.digest}).digest}
    staged = seal(layout, day, Manifest(stage=USER_SCORES, day=day.isoformat(), files=(), made_from=made_from))
    rules = Rules(contract=Contract(id="id", columns=()), limits=Limits(**LIMITS))
    found = {one.check: one for one in judge_scores(layout, day, staged, rules, Baselines(), BINS)}
    for name in ("rows_match_shards", "scores_valid", "score_drift", "feature_drift"):
        assert not found[name].lets_through, name


def test_scores_like_those_of_the_day_before_pass_and_others_fail(judge):
    assert judge(*dealt(EVENLY), before=EVENLY, bins=BINS)["score_drift"].result == "pass"
    outcome = judge(*dealt(EVENLY / 2), before=EVENLY, bins=BINS)["score_drift"]
    assert (outcome.result, outcome.limit) == ("fail", 0.2)
    assert "since 2026-01-04" in outcome.detail


def test_a_drift_limit_of_zero_is_a_limit(judge):
    moved = EVENLY.copy()
    moved[0] = 0.99
    assert judge(*dealt(moved), before=EVENLY, bins=BINS, max_score_psi=0.0)["score_drift"].result == "fail"


def test_scores_of_a_bundle_without_bins_are_compared_in_even_ones(judge):
    assert judge(*dealt(EVENLY / 2), before=EVENLY)["score_drift"].result == "fail"
    assert judge(*dealt(EVENLY), before=EVENLY)["score_drift"].result == "pass"


def test_eight_users_are_too_few_to_drift_and_it_says_so(judge):
    outcome = judge(*dealt(EVENLY[:8]), before=1 - EVENLY[:8], bins=BINS)["score_drift"]
    assert (outcome.result, outcome.lets_through) == ("no_baseline", True)
    assert "8 rows are too few to tell drift from chance" in outcome.detail


def test_a_million_users_whose_shares_moved_by_a_trifle_do_not_drift(judge):
    many = np.arange(200_000) / 200_000
    outcome = judge(*dealt(many**1.005), before=many, bins=BINS)["score_drift"]
    assert outcome.result == "pass"
    assert outcome.observed < 0.001


def test_without_a_day_before_there_is_proven_to_be_no_drift(judge):
    outcome = judge(*dealt(EVENLY), bins=BINS)["score_drift"]
    assert (outcome.result, outcome.observed) == ("no_baseline", None)


@pytest.mark.parametrize("damage", ["cut", "gone", "without scores", "fewer"])
def test_a_day_before_whose_scores_cannot_be_read_blocks(judge, layout, day, damage):
    baseline = publish(layout, day, EVENLY)
    path = layout.offline_part(baseline.day)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "gone":
        path.unlink()
    else:
        table = ids_only(["a"] * ROWS) if damage == "without scores" else scores(["a"], [0.5])
        with ParquetSink(path, table.schema) as sink:
            sink.write(table)
    with pytest.raises(CorruptError, match=path.name):
        judge(*dealt(EVENLY), before=EVENLY, baseline=baseline, bins=BINS)


def test_categories_that_training_never_saw_fail_the_day_beyond_their_limit(judge):
    for count, result in ((40, "pass"), (1000, "fail")):
        outcome = judge(*dealt(EVENLY), bins=BINS, facts={"unknown": {"plan": count}})["unknown_categories"]
        assert (outcome.result, outcome.baseline) == (result, 0.0)
    assert "unknown_rate of plan is 0.25" in outcome.detail


def test_one_unknown_category_among_eight_users_is_chance_unless_the_limit_is_zero(judge):
    for limit, result in ((0.1, "pass"), (0.0, "fail")):
        found = judge(*dealt(EVENLY[:8]), facts={"unknown": {"plan": 1}}, max_unknown_rate=limit)
        assert found["unknown_categories"].result == result


def test_one_shard_full_of_unknown_categories_fails_the_day(judge):
    facts = {"unknown": {"plan": 300}, "unknown_by_shard": {SHARDS[0]: {"plan": 0}, SHARDS[1]: {"plan": 300}}}
    outcome = judge(*dealt(EVENLY), facts=facts)["unknown_categories"]
    assert outcome.result == "fail"
    assert SHARDS[1] in outcome.detail


@pytest.mark.parametrize(
    ("facts", "bins"),
    [
        ({"unknown": None, "unknown_by_shard": None}, BINS),
        ({"unknown": {}, "unknown_by_shard": {}}, BINS),
        ({"unknown_by_shard": {SHARDS[0]: {"plan": 0}}}, None),
        ({"unknown": {}}, None),
    ],
)
def test_categories_that_were_not_counted_everywhere_are_not_evaluated(judge, facts, bins):
    outcome = judge(*dealt(EVENLY), facts=facts, bins=bins)["unknown_categories"]
    assert (outcome.result, outcome.lets_through) == ("not_evaluated", False)


def test_scores_of_which_nothing_was_counted_are_not_evaluated(stage):
    staged = stage(USER_SCORES, dict(zip(SHARDS, dealt(EVENLY), strict=True)))
    (look,) = {one.column for one in unknown_looks(staged.manifest, Limits(**LIMITS), None)}
    assert look == "all features"
    assert {one.observed for one in unknown_looks(staged.manifest, Limits(**LIMITS), None)} == {None}


def test_a_feature_far_from_training_warns_and_lets_the_day_through(judge):
    facts = {"histograms": {"age": [4000, 0, 0, 0], "plan": [0, 0, 2800, 1200, 0]}}
    outcome = judge(*dealt(EVENLY), bins=BINS, facts=facts)["feature_drift"]
    assert (outcome.result, outcome.severity, outcome.lets_through) == ("fail", "warn", True)
    assert "of age is" in outcome.detail
    assert {row["column"]: row["result"] for row in outcome.table} == {"age": "fail", "plan": "pass", "score": "pass"}


def test_it_fails_the_day_where_the_profile_says_so(judge):
    facts = {"histograms": {"age": [4000, 0, 0, 0], "plan": [0, 0, 2800, 1200, 0]}}
    outcome = judge(*dealt(EVENLY), bins=BINS, facts=facts, on_feature_drift="fail")["feature_drift"]
    assert (outcome.result, outcome.lets_through) == ("fail", False)


@pytest.mark.parametrize("histograms", [{}, {"age": [0, 0, 0, 0]}, {"age": [1, 2]}])
def test_a_feature_that_was_not_counted_is_not_evaluated_and_warning_does_not_help(judge, histograms):
    outcome = judge(*dealt(EVENLY), bins=BINS, facts={"histograms": histograms})["feature_drift"]
    assert (outcome.result, outcome.lets_through) == ("not_evaluated", False)


def test_a_warning_beside_a_feature_that_was_not_counted_is_more_than_a_warning(judge):
    outcome = judge(*dealt(EVENLY), bins=BINS, facts={"histograms": {"age": [4000, 0, 0, 0]}})["feature_drift"]
    assert (outcome.result, outcome.lets_through) == ("not_evaluated", False)


def test_a_bundle_that_says_nothing_of_its_training_has_no_baseline(judge):
    outcome = judge(*dealt(EVENLY))["feature_drift"]
    assert (outcome.result, outcome.lets_through) == ("no_baseline", True)


def test_what_was_measured_of_every_shard_and_feature_is_kept_for_people(judge, layout, day):
    binned = {name: {"age": [400, 1200, 400, 0], "plan": [0, 0, 1400, 600, 0]} for name in SHARDS}
    judge(*dealt(EVENLY), bins=BINS, facts={"histograms_by_shard": binned})
    rows = pq.ParquetFile(layout.measures(USER_SCORES, day)).read().to_pylist()
    assert [(row["shard"], row["column"]) for row in rows] == [
        (name, column) for name in SHARDS for column in ("age", "plan", "score")
    ]
    age, plan, score = rows[3:]
    assert (age["rows"], age["unknown"], age["bins"]) == (2000, None, [400, 1200, 400, 0])
    assert (plan["unknown"], plan["bins"]) == (0, [0, 0, 1400, 600, 0])
    assert (score["nulls"], score["nans"], score["bins"]) == (0, 0, [200] * 10)
    assert score["maximum"] == pytest.approx(3999 / 4000)


def test_an_export_that_is_not_there_is_not_evaluated(layout, day):
    (outcome,) = judge_export(layout, day)
    assert (outcome.check, outcome.result) == ("rows_match_scores", "not_evaluated")
