"""The gate of the shards: exactly the landed users, each once, within the contract, like the days before."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

from profile_assets.errors import CorruptError
from profile_assets.quality.baseline import Baseline, Baselines
from profile_assets.quality.gates import Limits, Rules, check_names, judge_shards
from profile_assets.quality.measures import Meter
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS, USERS_FILE, shard_file
from profile_assets.users.contract import Column, Contract

LIMITS = {"min_rows": 1, "max_row_change": 0.5, "max_null_rate_change": 0.1}
CONTRACT = Contract(
    id="customer",
    columns=(
        Column(name="age", type=pa.int64(), max_null_rate=0.5, minimum=0, maximum=120),
        Column(name="spend", type=pa.float64(), max_null_rate=0.0),
        Column(name="plan", type=pa.string(), max_null_rate=0.5),
    ),
)
SHARDS = [shard_file(0, 2), shard_file(1, 2)]
TIMES = 500  # four kinds of users, this often: so many that chance widens no limit by much


def users(times=TIMES, **changed):
    columns = {
        "age": [20, None, 40, 50],
        "spend": [0.0, 1.5, 2.0, 9.0],
        "plan": ["x", "y", "x", "y"],
        **changed,
    }
    ids = columns.pop("user_id", [f"u{n}" for n in range(4 * times)])
    arrays = {name: pa.array(values * times, CONTRACT.schema.field(name).type) for name, values in columns.items()}
    return pa.table({"user_id": pa.array(ids, pa.string()), **arrays})


def baseline_of(day, **changed):
    rates = {"user_id": 0.0, "age": 0.25, "spend": 0.0, "plan": 0.0}
    return Baseline(**{"day": day, "rows": 4 * TIMES, "null_rates": rates, "digest": "d", **changed})


def results(found):
    return {name: outcome.result for name, outcome in found.items()}


def halves(table):
    """Cut so that either half has users of all four kinds."""
    middle = table.num_rows // 8 * 4
    return {SHARDS[0]: table.slice(0, middle), SHARDS[1]: table.slice(middle)}


@pytest.fixture
def judge(layout, day, stage, committed):
    """Judge a table as the day's shards, beside equal days before unless told otherwise; the outcomes by check."""

    def run(table, *, tables=None, raw=None, contract=CONTRACT, suite=None, limits=None, **baseline):
        before = None if baseline.get("absent") else baseline_of(day, **baseline)
        landed = committed(RAW_USERS, {USERS_FILE: table if raw is None else raw})
        staged = stage(USER_SHARDS, tables or halves(table), made_from={RAW_USERS: landed.digest})
        rules = Rules(contract=contract, limits=Limits(**{**LIMITS, **(limits or {})}), suite=suite)
        baselines = Baselines(newest=before, weekday=before)
        outcomes = judge_shards(layout, day, staged, rules, baselines, Meter(contract=contract))
        return {outcome.check: outcome for outcome in outcomes}

    return run


def test_a_good_day_passes_every_check_of_its_stage(judge):
    found = judge(users())
    assert tuple(found) == check_names()[USER_SHARDS]
    assert set(results(found).values()) == {"pass"}


def test_the_measures_of_every_shard_and_column_are_kept_for_people(judge, layout, day):
    import pyarrow.parquet as pq

    judge(users())
    table = pq.ParquetFile(layout.measures(USER_SHARDS, day)).read()
    assert table.num_rows == 2 * 4
    (row,) = [row for row in table.to_pylist() if (row["shard"], row["column"]) == (SHARDS[1], "age")]
    assert (row["rows"], row["nulls"], row["out_of_range"], row["minimum"], row["maximum"]) == (1000, 250, 0, 20, 50)


def test_the_table_shows_observed_limit_and_counts_of_each_column(judge):
    table = judge(users(plan=["x", "", None, "y"]))["null_rates"].table
    (row,) = [row for row in table if row["column"] == "plan"]
    assert row == {
        "column": "plan",
        "shard": "day",
        "measure": "null_rate",
        "observed": 0.5,
        "limit": 0.5,
        "baseline": None,
        "result": "pass",
        "nulls": 500,
        "nans": 0,
        "blanks": 500,
    }
    assert {row["column"] for row in table} == set(CONTRACT.schema.names)


def test_the_number_of_expectations_that_were_evaluated_is_told(judge):
    found = judge(users())
    columns, shards = 4, 2
    assert found["null_rates"].evaluated == columns * (1 + shards)
    assert found["null_rate_change"].evaluated == columns
    assert judge(users(), absent=True)["null_rate_change"].evaluated == 0


def test_an_empty_day_passes_nothing(judge):
    assert not any(outcome.lets_through for outcome in judge(users(0), absent=True).values())


def test_shards_that_no_user_fell_into_keep_no_day_back(judge, tmp_path):
    suite = tmp_path / "suite.json"
    exists = {"type": "expect_column_to_exist", "kwargs": {"column": "age"}}
    suite.write_text(json.dumps({"expectations": [exists]}))
    contract = Contract(
        id="customer", columns=(*CONTRACT.columns[:2], Column(name="plan", type=pa.string(), values=("x", "y")))
    )
    tables = {shard_file(0, 16): users(7), **{shard_file(n, 16): users(0) for n in range(1, 16)}}
    found = judge(users(7), tables=tables, contract=contract, suite=suite, absent=True, limits={"max_shard_skew": 16.0})
    assert {name: result for name, result in results(found).items() if result not in ("pass", "no_baseline")} == {}
    assert found["unique_ids"].evaluated == 2


def test_without_any_earlier_day_the_absolute_limits_alone_decide(judge):
    found = judge(users(), absent=True)
    assert {name: result for name, result in results(found).items() if result != "pass"} == {
        "null_rate_change": "no_baseline",
        "null_rate_weekday": "no_baseline",
    }
    outcome = judge(users(spend=[0.0, None, 1.0, 1.0]), absent=True)["null_rates"]
    assert outcome.result == "fail"
    assert outcome.detail.startswith("null_rate of spend is 0.25, allowed at most 0 (fail)")


@pytest.mark.parametrize("spend", [[0.0, None, 1.0, 1.0], [0.0, math.nan, 1.0, 1.0]])
def test_a_null_and_a_nan_are_both_missing_and_a_limit_of_zero_is_a_limit(judge, spend):
    outcome = judge(users(spend=spend))["null_rates"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 0.25, 0.0)


def test_one_null_among_thousands_breaks_a_limit_of_zero(judge):
    table = users(1)
    spend = pa.array([None, *[1.0] * (4 * TIMES - 1)], pa.float64())
    table = users().set_column(2, "spend", spend)
    assert judge(table)["null_rates"].result == "fail"


def test_the_null_rate_is_over_all_rows(judge):
    """Two of four are missing: 0.5 of all rows, which is allowed, but 1.0 of those that are there."""
    assert judge(users(age=[None, 20, None, 40]))["null_rates"].result == "pass"


def test_blanks_are_missing_too(judge):
    outcome = judge(users(plan=["", " ", "", "x"]))["null_rates"]
    assert (outcome.result, outcome.observed) == ("fail", 0.75)


def test_one_shard_that_lost_a_column_fails_a_day_whose_rate_is_within_its_limit(judge):
    """A retry wrote nulls into one of two files: 0.5 of the day is allowed, 1.0 of a shard is not."""
    table = users(age=[20, 30, 40, 50])
    first, second = halves(table).values()
    lost = second.set_column(1, "age", pa.nulls(second.num_rows, pa.int64()))
    outcome = judge(table, tables={SHARDS[0]: first, SHARDS[1]: lost}, absent=True)["null_rates"]
    assert outcome.result == "fail"
    assert f"null_rate of age in {SHARDS[1]} is 1" in outcome.detail


@pytest.mark.parametrize(("before", "result"), [(0.25, "pass"), (0.34, "pass"), (0.5, "fail"), (0.0, "fail")])
def test_a_null_rate_that_moved_either_way_fails(judge, before, result):
    rates = {"user_id": 0.0, "age": before, "spend": 0.0, "plan": 0.0}
    found = judge(users(), null_rates=rates)
    assert (found["null_rate_change"].result, found["null_rate_weekday"].result) == (result, result)


def test_the_weekday_has_a_limit_of_its_own(judge):
    rates = {"user_id": 0.0, "age": 0.0, "spend": 0.0, "plan": 0.0}
    found = judge(users(), null_rates=rates, limits={"max_null_rate_change_weekday": 0.3})
    assert (found["null_rate_change"].result, found["null_rate_weekday"].result) == ("fail", "pass")


def test_a_change_limit_of_zero_is_a_limit(judge):
    rates = {"user_id": 0.0, "age": 0.2499, "spend": 0.0, "plan": 0.0}
    found = judge(users(), null_rates=rates, limits={"max_null_rate_change": 0.0})
    assert (found["null_rate_change"].result, found["null_rate_change"].limit) == ("fail", 0.0)


def test_one_null_among_eight_users_is_chance_and_no_change(judge):
    table = users(2, age=[20, 30, None, 40])
    rates = {"user_id": 0.0, "age": 0.0, "spend": 0.0, "plan": 0.0}
    assert judge(table, rows=8, null_rates=rates)["null_rate_change"].result == "pass"


def test_a_baseline_that_is_no_number_is_not_evaluated(judge):
    rates = {"user_id": 0.0, "age": math.nan, "spend": 0.0, "plan": 0.0}
    assert judge(users(), null_rates=rates)["null_rate_change"].result == "not_evaluated"


def test_a_limit_that_is_no_number_passes_nothing(judge):
    assert judge(users(), limits={"max_null_rate_change": math.nan})["null_rate_change"].result == "fail"


def test_a_column_that_the_baseline_lacks_is_told_and_judged_by_its_limit_alone(judge):
    rates = {"user_id": 0.0, "age": 0.25, "spend": 0.0}
    outcome = judge(users(), null_rates=rates)["null_rate_change"]
    assert (outcome.result, outcome.detail) == ("no_baseline", "3 limits hold; 2026-01-05 did not have plan")


def test_a_missing_or_misspelt_column_is_not_evaluated(judge):
    found = results(judge(users().rename_columns({"spend": "Spend"})))
    names = ("null_rates", "null_rate_change", "ranges")
    assert {found[name] for name in names} == {"not_evaluated"}


def test_what_great_expectations_answered_stands_in_the_outcomes_that_it_judged(judge):
    found = judge(users())
    assert [one["success"] for one in found["null_rates"].answers] == [True] * 3
    assert found["rows_match_raw"].answers == ()


def test_a_failure_hides_no_column_that_was_not_evaluated(judge):
    outcome = judge(users(age=[None] * 4).rename_columns({"spend": "Spend"}))["null_rates"]
    assert (outcome.result, outcome.lets_through) == ("not_evaluated", False)
    assert {"fail", "not_evaluated"} <= {row["result"] for row in outcome.table}


@pytest.mark.parametrize("age", [[20, None, 40, 121], [-1, None, 40, 50]])
def test_a_value_beyond_its_bounds_fails(judge, age):
    outcome = judge(users(age=age))["ranges"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 500, 0)


@pytest.mark.parametrize("odd", [math.inf, -math.inf])
def test_infinity_fails_where_no_bound_is_set(judge, odd):
    outcome = judge(users(spend=[0.0, odd, 1.0, 2.0]))["ranges"]
    assert outcome.result == "fail"
    assert "spend" in outcome.detail


def test_a_text_that_is_none_of_the_values_fails(judge):
    contract = Contract(id="customer", columns=(Column(name="plan", type=pa.string(), values=("x",)),))
    outcome = judge(users().select(["user_id", "plan"]), contract=contract)["ranges"]
    assert (outcome.result, outcome.observed) == ("fail", 1000)


def test_a_column_without_any_value_breaks_no_bound_but_its_null_rate(judge):
    found = results(judge(users(age=[None] * 4)))
    assert (found["ranges"], found["null_rates"]) == ("pass", "fail")


def test_users_without_any_bounded_column_have_no_bounds_to_break(judge):
    contract = Contract(id="customer", columns=(Column(name="plan", type=pa.string()),))
    assert judge(users().select(["user_id", "plan"]), contract=contract)["ranges"].result == "pass"


def test_an_id_said_twice_fails(judge):
    outcome = judge(users(1, user_id=["a", "b", "a", "a"]), tables={SHARDS[0]: users(1, user_id=["a", "b", "a", "a"])})
    assert (outcome["unique_ids"].result, outcome["unique_ids"].observed, outcome["unique_ids"].limit) == ("fail", 2, 0)


def test_a_blank_id_fails(judge):
    assert judge(users(1, user_id=["a", "b", " ", "d"]))["null_rates"].result == "fail"


def test_shards_of_very_uneven_size_fail_and_the_heaviest_is_named(judge):
    table = users()
    outcome = judge(table, tables={SHARDS[0]: table.slice(0, 100), SHARDS[1]: table.slice(100)})["shard_skew"]
    assert (outcome.result, outcome.observed) == ("fail", 1.9)
    assert SHARDS[1] in outcome.detail


def test_uneven_shards_of_a_handful_of_users_are_chance(judge):
    table = users(2)
    assert judge(table, tables={SHARDS[0]: table.slice(0, 1), SHARDS[1]: table.slice(1)})["shard_skew"].result == "pass"


def test_a_retry_that_doubles_as_many_rows_as_it_loses_fails(judge):
    odd = users(1, user_id=["a", "a", "c", "c"])
    outcome = judge(odd, raw=users(1, user_id=["a", "b", "c", "d"]))["rows_match_raw"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 4, 4)
    assert "other users" in outcome.detail


@pytest.mark.parametrize("change", [lambda table: table.slice(1), lambda table: pa.concat_tables([table, table[:1]])])
def test_a_lost_or_an_added_row_fails(judge, change):
    table = users(1)
    assert judge(change(table), raw=table)["rows_match_raw"].result == "fail"


def judged(layout, day, staged):
    rules = Rules(contract=CONTRACT, limits=Limits(**LIMITS))
    return judge_shards(layout, day, staged, rules, Baselines(), Meter(contract=CONTRACT))[0]


def test_shards_of_an_earlier_version_of_the_users_fail(layout, day, stage, committed):
    old = committed(RAW_USERS, {USERS_FILE: users(1)})
    committed(RAW_USERS, {USERS_FILE: users(1, age=[1, 2, 3, 4])})
    outcome = judged(layout, day, stage(USER_SHARDS, halves(users(1)), made_from={RAW_USERS: old.digest}))
    assert (outcome.result, outcome.detail) == ("fail", "it was made from another version of raw_users")


def test_shards_without_users_to_compare_with_are_not_evaluated(layout, day, stage):
    assert judged(layout, day, stage(USER_SHARDS, halves(users(1)))).result == "not_evaluated"


def test_shards_of_another_day_fail_even_where_they_hold_the_same_users(layout, day, stage, committed):
    raw = committed(RAW_USERS, {USERS_FILE: users(1)})
    other = stage(USER_SHARDS, halves(users(1)), day=day.replace(day=1), made_from={RAW_USERS: raw.digest})
    outcome = judged(layout, day, other)
    assert (outcome.result, outcome.detail) == ("fail", "it is of 2026-01-01, and raw_users of 2026-01-05")


def test_a_file_that_the_manifest_does_not_list_fails(layout, day, stage, committed):
    made_from = {RAW_USERS: committed(RAW_USERS, {USERS_FILE: users(1)}).digest}
    staged = stage(USER_SHARDS, halves(users(1)), made_from=made_from)
    (staged.folder / "shard-07-of-16.parquet").write_bytes(b"from an earlier run")
    outcome = judged(layout, day, staged)
    assert outcome.result == "fail"
    assert "shard-07-of-16.parquet" in outcome.detail


def test_a_cut_file_is_an_error(layout, day, stage, committed):
    made_from = {RAW_USERS: committed(RAW_USERS, {USERS_FILE: users(1)}).digest}
    staged = stage(USER_SHARDS, halves(users(1)), made_from=made_from)
    path = staged.folder / SHARDS[0]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptError, match=SHARDS[0]):
        judged(layout, day, staged)


def test_a_suite_of_ones_own_is_one_more_check(judge, tmp_path):
    suite = tmp_path / "suite.json"
    expectation = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "plan", "value_set": ["x"]}}
    suite.write_text(json.dumps({"name": "mine", "expectations": [expectation]}))
    found = judge(users(), suite=suite)
    assert tuple(found) == check_names(has_suite=True)[USER_SHARDS]
    assert (found["suite"].result, found["suite"].evaluated) == ("fail", 2)
