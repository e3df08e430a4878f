"""The gates: what each check passes, and that nothing empty, missing, raised or NaN ever does."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from profile_assets.errors import AccountingError, CorruptError
from profile_assets.quality.baseline import Baseline
from profile_assets.quality.gates import Limits, check_names, judge_export, judge_raw, judge_scores, judge_shards
from profile_assets.storage.layout import RAW_USERS, STAGES, USER_SCORES, USER_SHARDS, USERS_FILE, shard_file
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import seal
from profile_assets.users.contract import Column, Contract

LIMITS = Limits(min_rows=1, max_row_change=0.5, max_null_rate_change=0.1)
CONTRACT = Contract(
    id="customer",
    columns=(
        Column(name="age", type=pa.int64(), max_null_rate=0.5, minimum=0, maximum=120),
        Column(name="spend", type=pa.float64(), max_null_rate=0.0),
        Column(name="plan", type=pa.string(), max_null_rate=0.5),
    ),
)
SHARDS = [shard_file(0, 2), shard_file(1, 2)]


def users(**changed):
    columns = {
        "user_id": ["a", "b", "c", "d"],
        "age": [20, None, 40, 50],
        "spend": [0.0, 1.5, 2.0, 9.0],
        "plan": ["x", "y", "x", "y"],
        **changed,
    }
    arrays = {name: pa.array(columns[name], type=CONTRACT.schema.field(name).type) for name in CONTRACT.schema.names}
    return pa.table(arrays)


def baseline_of(day, **changed):
    rates = {"user_id": 0.0, "age": 0.25, "spend": 0.0, "plan": 0.0}
    return Baseline(**{"day": day, "rows": 4, "null_rates": rates, "digest": "d", **changed})


def by_check(outcomes):
    return {outcome.check: outcome for outcome in outcomes}


def results(outcomes):
    return {outcome.check: outcome.result for outcome in outcomes}


@pytest.fixture
def judge_users(stage, day):
    """Judge a table as the day's landed users, beside an equal day before unless told otherwise."""

    def judge(table, *, limits=LIMITS, contract=CONTRACT, **baseline):
        before = None if baseline.get("absent") else baseline_of(day, **baseline)
        return judge_raw(stage(RAW_USERS, {USERS_FILE: table}), contract, limits, before)

    return judge


def test_every_stage_has_its_checks_by_name():
    assert list(check_names()) == list(STAGES)


def test_a_good_day_passes_every_check_of_its_stage(judge_users):
    outcomes = judge_users(users())
    assert [outcome.check for outcome in outcomes] == list(check_names()[RAW_USERS])
    assert set(results(outcomes).values()) == {"pass"}


def test_the_table_shows_observed_limit_and_baseline_of_each_column(judge_users):
    table = by_check(judge_users(users(plan=["x", "", None, "y"])))["null_rates"].table
    (row,) = [row for row in table if (row["column"], row["measure"]) == ("plan", "null_rate")]
    assert row == {
        "column": "plan",
        "measure": "null_rate",
        "observed": 0.5,
        "limit": 0.5,
        "baseline": 0.0,
        "result": "pass",
        "nulls": 1,
        "nans": 0,
        "blanks": 1,
    }
    assert {row["column"] for row in table} == set(CONTRACT.schema.names)


def test_an_empty_day_passes_nothing_even_where_no_row_is_asked_for(judge_users):
    limits = Limits(min_rows=0, max_row_change=9.0, max_null_rate_change=1.0)
    outcomes = judge_users(users().slice(0, 0), limits=limits)
    assert not any(outcome.lets_through for outcome in outcomes)


def test_without_any_earlier_day_the_absolute_limits_alone_decide(judge_users):
    found = results(judge_users(users(), absent=True))
    assert found == {
        "min_rows": "pass",
        "row_count_change": "no_baseline",
        "null_rates": "no_baseline",
        "ranges": "pass",
        "unique_ids": "pass",
    }
    outcomes = by_check(judge_users(users(spend=[0.0, None, 1.0, 1.0]), absent=True))
    assert outcomes["null_rates"].result == "fail"
    assert outcomes["null_rates"].detail == "null_rate of spend is 0.25, allowed at most 0 (fail)"


def test_too_few_rows_fail(judge_users):
    limits = Limits(min_rows=5, max_row_change=0.5, max_null_rate_change=0.1)
    assert by_check(judge_users(users(), limits=limits))["min_rows"].result == "fail"


@pytest.mark.parametrize(
    ("rows_before", "max_change", "result"),
    [
        (4, 0.0, "pass"),
        (5, 0.0, "fail"),
        (8, 0.5, "pass"),
        (9, 0.5, "fail"),
        (2, 0.5, "fail"),
        (0, 9.0, "not_evaluated"),
    ],
)
def test_the_row_count_is_held_against_the_baseline(judge_users, rows_before, max_change, result):
    limits = Limits(min_rows=1, max_row_change=max_change, max_null_rate_change=0.1)
    outcome = by_check(judge_users(users(), limits=limits, rows=rows_before))["row_count_change"]
    assert (outcome.result, outcome.limit) == (result, max_change)


def test_a_limit_that_is_no_number_passes_nothing(judge_users):
    limits = Limits(min_rows=1, max_row_change=math.nan, max_null_rate_change=math.nan)
    found = results(judge_users(users(), limits=limits))
    assert (found["row_count_change"], found["null_rates"]) == ("fail", "fail")


@pytest.mark.parametrize("spend", [[0.0, None, 1.0, 1.0], [0.0, math.nan, 1.0, 1.0]])
def test_a_null_and_a_nan_are_both_missing_and_a_limit_of_zero_is_a_limit(judge_users, spend):
    outcome = by_check(judge_users(users(spend=spend)))["null_rates"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 0.25, 0.0)


def test_the_null_rate_is_over_all_rows_and_counts_blanks(judge_users):
    """Two of four are missing: 0.5 of all rows, but 1.0 of those that are there."""
    assert results(judge_users(users(age=[None, 20, None, 40]), null_rates={"age": 0.5}))["null_rates"] == "no_baseline"
    outcome = by_check(judge_users(users(plan=["", " ", "", "x"])))["null_rates"]
    assert (outcome.result, outcome.observed) == ("fail", 0.75)


@pytest.mark.parametrize(("before", "result"), [(0.25, "pass"), (0.34, "pass"), (0.5, "fail"), (0.0, "fail")])
def test_a_null_rate_that_moved_either_way_fails(judge_users, before, result):
    rates = {"user_id": 0.0, "age": before, "spend": 0.0, "plan": 0.0}
    assert by_check(judge_users(users(), null_rates=rates))["null_rates"].result == result


def test_a_baseline_that_is_no_number_is_not_evaluated(judge_users):
    rates = {"user_id": 0.0, "age": math.nan, "spend": 0.0, "plan": 0.0}
    assert by_check(judge_users(users(), null_rates=rates))["null_rates"].result == "not_evaluated"


def test_a_column_that_the_baseline_lacks_is_told_and_judged_by_its_limit_alone(judge_users):
    rates = {"user_id": 0.0, "age": 0.25, "spend": 0.0}
    outcome = by_check(judge_users(users(), null_rates=rates))["null_rates"]
    assert (outcome.result, outcome.detail) == ("no_baseline", "7 limits hold; 1 comparisons have no earlier day yet")


def test_a_missing_or_misspelt_column_is_not_evaluated(judge_users):
    found = results(judge_users(users().rename_columns({"spend": "Spend"})))
    assert (found["null_rates"], found["ranges"]) == ("not_evaluated", "not_evaluated")


@pytest.mark.parametrize("age", [[20, None, 40, 121], [-1, None, 40, 50]])
def test_a_value_beyond_its_bounds_fails(judge_users, age):
    assert by_check(judge_users(users(age=age)))["ranges"].result == "fail"


@pytest.mark.parametrize("odd", [math.inf, -math.inf])
def test_infinity_fails_where_no_bound_is_set(judge_users, odd):
    outcome = by_check(judge_users(users(spend=[0.0, odd, 1.0, 2.0])))["ranges"]
    assert outcome.result == "fail"
    assert "spend" in outcome.detail


def test_a_column_without_any_value_breaks_no_bound_but_its_null_rate(judge_users):
    found = results(judge_users(users(age=[None] * 4)))
    assert (found["ranges"], found["null_rates"]) == ("pass", "fail")


def test_users_without_any_number_have_no_bounds_to_break(judge_users):
    contract = Contract(id="customer", columns=(Column(name="plan", type=pa.string()),))
    outcomes = judge_users(users().select(["user_id", "plan"]), contract=contract)
    assert by_check(outcomes)["ranges"].result == "pass"


def test_an_id_said_twice_fails(judge_users):
    outcome = by_check(judge_users(users(user_id=["a", "b", "a", "a"])))["unique_ids"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 2, 0)


def test_a_blank_id_fails(judge_users):
    assert by_check(judge_users(users(user_id=["a", "b", " ", "d"])))["null_rates"].result == "fail"


def test_rows_that_the_manifest_does_not_know_of_are_an_error(layout, stage, day):
    staged = stage(RAW_USERS, {USERS_FILE: users()})
    (layout.staging(RAW_USERS, day) / USERS_FILE).write_bytes(_bytes_of(stage, users().slice(1)))
    with pytest.raises(AccountingError, match="has 3 rows, its manifest says 4"):
        judge_raw(staged, CONTRACT, LIMITS, None)


def _bytes_of(stage, table):
    return (stage("other", {USERS_FILE: table}).folder / USERS_FILE).read_bytes()


def halves(table):
    return {SHARDS[0]: table.slice(0, 2), SHARDS[1]: table.slice(2)}


def shards_of(committed, **changed):
    """Land four users; the manifest of what is committed, and what shards of it are made from."""
    raw = committed(RAW_USERS, {USERS_FILE: users(**changed)})
    return {RAW_USERS: raw.digest}


def test_shards_with_the_landed_users_pass(layout, day, stage, committed):
    staged = stage(USER_SHARDS, halves(users()), made_from=shards_of(committed))
    assert results(judge_shards(layout, day, staged)) == {"rows_match_raw": "pass"}


def test_a_retry_that_doubles_as_many_rows_as_it_loses_fails(layout, day, stage, committed):
    odd = users(user_id=["a", "a", "c", "c"])
    staged = stage(USER_SHARDS, halves(odd), made_from=shards_of(committed))
    (outcome,) = judge_shards(layout, day, staged)
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 4, 4)
    assert "other users" in outcome.detail


@pytest.mark.parametrize("table", [users().slice(1), pa.concat_tables([users(), users().slice(0, 1)])])
def test_a_lost_or_an_added_row_fails(layout, day, stage, committed, table):
    staged = stage(USER_SHARDS, halves(table), made_from=shards_of(committed))
    assert results(judge_shards(layout, day, staged)) == {"rows_match_raw": "fail"}


def test_shards_of_an_earlier_version_of_the_users_fail(layout, day, stage, committed):
    made_from = shards_of(committed)
    shards_of(committed, age=[1, 2, 3, 4])
    (outcome,) = judge_shards(layout, day, stage(USER_SHARDS, halves(users()), made_from=made_from))
    assert (outcome.result, outcome.detail) == ("fail", "it was made from another version of raw_users")


def test_shards_of_no_users_and_shards_without_users_to_compare_with_are_not_evaluated(layout, day, stage, committed):
    staged = stage(USER_SHARDS, halves(users()))
    assert results(judge_shards(layout, day, staged)) == {"rows_match_raw": "not_evaluated"}
    empty = users().slice(0, 0)
    made_from = {RAW_USERS: committed(RAW_USERS, {USERS_FILE: empty}).digest}
    staged = stage(USER_SHARDS, halves(empty), made_from=made_from)
    assert results(judge_shards(layout, day, staged)) == {"rows_match_raw": "not_evaluated"}


def test_a_file_that_the_manifest_does_not_list_fails(layout, day, stage, committed):
    staged = stage(USER_SHARDS, halves(users()), made_from=shards_of(committed))
    (staged.folder / "shard-07-of-16.parquet").write_bytes(b"from an earlier run")
    (outcome,) = judge_shards(layout, day, staged)
    assert outcome.result == "fail"
    assert "shard-07-of-16.parquet" in outcome.detail


def test_a_cut_file_is_an_error(layout, day, stage, committed):
    staged = stage(USER_SHARDS, halves(users()), made_from=shards_of(committed))
    path = staged.folder / SHARDS[0]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptError, match=SHARDS[0]):
        judge_shards(layout, day, staged)


def scores(ids, values):
    return pa.table({"user_id": pa.array(ids, pa.string()), "score": pa.array(values, pa.float32())})


@pytest.fixture
def judge_values(layout, day, stage, committed):
    """Judge score tables, one a shard, against shards of users a, b and c, d."""

    def judge(*tables, limits=LIMITS):
        shards = committed(USER_SHARDS, halves(users()), made_from=shards_of(committed))
        staged = stage(USER_SCORES, dict(zip(SHARDS, tables, strict=True)), made_from={USER_SHARDS: shards.digest})
        return judge_scores(layout, day, staged, limits)

    return judge


def test_scores_within_zero_and_one_pass_every_check_of_their_stage(judge_values):
    outcomes = judge_values(scores(["a", "b"], [0.0, 1.0]), scores(["d", "c"], [0.25, 0.5]))
    assert [outcome.check for outcome in outcomes] == list(check_names()[USER_SCORES])
    assert set(results(outcomes).values()) == {"pass"}


@pytest.mark.parametrize("odd", [None, math.nan, math.inf, -math.inf, 1.01, -0.01])
def test_a_score_that_is_none_fails(judge_values, odd):
    outcomes = judge_values(scores(["a", "b"], [0.0, 1.0]), scores(["c", "d"], [0.5, odd]))
    assert by_check(outcomes)["scores_valid"].result == "fail"


@pytest.mark.parametrize("all_odd", [None, math.nan])
def test_scores_that_are_all_missing_do_not_pass(judge_values, all_odd):
    outcomes = judge_values(scores(["a", "b"], [all_odd] * 2), scores(["c", "d"], [all_odd] * 2))
    assert not by_check(outcomes)["scores_valid"].lets_through


def test_limits_of_zero_are_limits_of_scores_too(judge_values):
    limits = Limits(min_rows=1, max_row_change=1.0, max_null_rate_change=1.0, score_maximum=0.0)
    outcomes = judge_values(scores(["a", "b"], [0.0, 0.0]), scores(["c", "d"], [0.0, 0.1]), limits=limits)
    assert by_check(outcomes)["scores_valid"].result == "fail"


def test_a_user_scored_twice_for_one_who_is_lost_fails_twice(judge_values):
    outcomes = by_check(judge_values(scores(["a", "b"], [0.0, 1.0]), scores(["c", "c"], [0.5, 0.5])))
    assert outcomes["unique_ids"].result == "fail"
    assert outcomes["rows_match_shards"].result == "fail"
    assert outcomes["rows_match_shards"].table == ({"file": SHARDS[1], "rows": 2, "expected_rows": 2},)


def test_users_that_changed_shards_fail(judge_values):
    outcome = by_check(judge_values(scores(["a", "c"], [0.0, 1.0]), scores(["b", "d"], [0.5, 0.5])))[
        "rows_match_shards"
    ]
    assert (outcome.result, outcome.detail) == ("fail", "2 files hold other users than those of user_shards")


def test_scores_without_a_score_are_not_evaluated(judge_values):
    tables = [scores([first, second], [0.1, 0.2]).select(["user_id"]) for first, second in ("ab", "cd")]
    assert by_check(judge_values(*tables))["scores_valid"].result == "not_evaluated"


def test_scores_of_no_files_at_all_pass_nothing(layout, day, committed):
    made_from = {USER_SHARDS: committed(USER_SHARDS, {}, made_from=shards_of(committed)).digest}
    manifest = Manifest(stage=USER_SCORES, day=day.isoformat(), files=(), made_from=made_from)
    outcomes = judge_scores(layout, day, seal(layout, day, manifest), LIMITS)
    assert not any(outcome.lets_through for outcome in outcomes)


def test_an_export_that_is_not_there_is_not_evaluated(layout, day):
    assert results(judge_export(layout, day)) == {"rows_match_scores": "not_evaluated"}
