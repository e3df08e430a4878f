"""A suite of one's own: run on every shard, and what it did not look at passes nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from profile_assets.errors import ProfileError
from profile_assets.quality.suite import judge_suite
from profile_assets.quality.suite_file import check_suite
from profile_assets.storage.parquet import ParquetSink


def expect(kind, **kwargs):
    return {"type": f"expect_{kind}", "kwargs": kwargs}


def between(column, low, high):
    return expect("column_values_to_be_between", column=column, min_value=low, max_value=high)


@pytest.fixture
def judge(tmp_path):
    """Judge shards, a list of ages each, by the expectations given."""

    def run(expectations, *shards):
        path = tmp_path / "suite.json"
        path.write_text(json.dumps({"name": "mine", "expectations": expectations}))
        files = []
        for number, ages in enumerate(shards):
            table = pa.table(
                {"user_id": [f"u{number}-{n}" for n in range(len(ages))], "age": pa.array(ages, pa.int64())}
                | {"blank": pa.nulls(len(ages), pa.string()), "nan": pa.array([float("nan")] * len(ages))}
            )
            files.append((f"shard-{number}", tmp_path / f"shard-{number}.parquet"))
            with ParquetSink(files[-1][1], table.schema) as sink:
                sink.write(table)
        return judge_suite(path, files)

    return run


def test_a_suite_that_holds_in_every_shard_passes_and_says_how_much_was_evaluated(judge):
    row_count = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
    outcome = judge([between("age", 0, 120), row_count], [20, 30], [40])
    assert (outcome.result, outcome.evaluated, outcome.observed) == ("pass", 4, 0)


def test_a_failure_in_one_shard_fails_the_day_and_names_it(judge):
    outcome = judge([between("age", 0, 120)], [20, 30], [40, 200])
    assert outcome.result == "fail"
    assert "between(age) in shard-1: 1 of 2 rows" in outcome.detail


def test_an_expectation_that_names_a_column_that_is_not_there_is_not_evaluated(judge):
    outcome = judge([between("aeg", 0, 120), between("age", 0, 120)], [20, 30])
    assert outcome.result == "not_evaluated"
    assert "it raised" in outcome.detail
    assert [row["result"] for row in outcome.table] == ["not_evaluated", "pass"]


def test_a_failure_hides_no_expectation_that_was_not_evaluated(judge):
    for expectations in ([between("aeg", 0, 1), between("age", 0, 1)], [between("age", 0, 1), between("aeg", 0, 1)]):
        outcome = judge(expectations, [20, 30])
        assert (outcome.result, outcome.observed) == ("not_evaluated", 2)
        assert "aeg" in outcome.detail
        assert "2 of 2 rows" in outcome.detail


def test_an_expectation_that_names_no_column_is_refused(judge):
    with pytest.raises(ProfileError, match="column"):
        judge([{"type": "expect_column_values_to_not_be_null", "kwargs": {}}], [20])


def test_an_expectation_that_is_not_known_is_refused_and_not_left_out(judge):
    with pytest.raises(ProfileError, match="expect_wonders"):
        judge([between("age", 0, 120), {"type": "expect_wonders", "kwargs": {}}], [20])


def test_the_same_expectation_twice_is_answered_twice(judge):
    assert judge([between("age", 0, 120)] * 2, [20]).evaluated == 2


def test_an_expectation_that_saw_no_value_in_any_shard_passes_nothing(judge):
    outcome = judge([between("age", 0, 120)], [None, None], [None])
    assert (outcome.result, outcome.lets_through) == ("not_evaluated", False)
    assert judge([between("age", 0, 120)], [None, None], [30]).result == "pass"


def test_shards_without_rows_pass_nothing(judge):
    outcome = judge([between("age", 0, 120)], [], [])
    assert (outcome.result, outcome.evaluated) == ("not_evaluated", 0)
    assert judge([between("age", 0, 120)], [], [30]).result == "pass"


@pytest.mark.parametrize("text", ["{", "[]", '{"expectations": []}', '{"expectations": [{"kwargs": {}}]}'])
def test_what_is_no_suite_is_a_named_error(tmp_path, text):
    path = tmp_path / "suite.json"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"quality\.suite"):
        judge_suite(path, [])


def test_a_suite_that_is_not_there_is_a_named_error(tmp_path):
    with pytest.raises(ProfileError, match=r"absent\.json cannot be read"):
        judge_suite(tmp_path / "absent.json", [])


NOTHING_SEEN = [
    expect("column_sum_to_be_between", column="age", min_value=0, max_value=1),
    expect("column_sum_to_be_between", column="nan", min_value=0, max_value=1),
    expect("column_distinct_values_to_be_in_set", column="blank", value_set=["q"]),
    expect("column_distinct_values_to_equal_set", column="blank", value_set=[]),
    expect("column_unique_value_count_to_be_between", column="age", max_value=10),
    expect("column_proportion_of_unique_values_to_be_between", column="age", max_value=1),
    expect("column_values_to_be_of_type", column="age", type_="int64"),
    expect("column_values_to_be_unique", column="blank"),
    expect("column_pair_values_to_be_equal", column_A="blank", column_B="age"),
    expect("compound_columns_to_be_unique", column_list=["blank", "age"]),
]


def test_an_expectation_that_saw_no_value_passes_nothing_whatever_its_kind(judge):
    outcome = judge(NOTHING_SEEN, [None, None], [None])
    assert {row["expectation"]: row["result"] for row in outcome.table if row["result"] != "not_evaluated"} == {}
    assert not outcome.lets_through


def test_a_condition_on_rows_that_leaves_none_leaves_nothing_seen(judge):
    where = {"row_condition": "age > 100", "condition_parser": "pandas"}
    outcome = judge([expect("column_sum_to_be_between", column="age", min_value=0, max_value=1, **where)], [20, 30])
    assert outcome.result == "not_evaluated"


def test_expectations_about_missing_values_look_at_all_rows(judge):
    mine = [
        expect("column_values_to_be_null", column="blank"),
        expect("column_proportion_of_non_null_values_to_be_between", column="blank", max_value=0),
    ]
    assert judge(mine, [20, 30]).result == "pass"


ABOUT_THE_TABLE = [
    expect("column_to_exist", column="age"),
    expect("table_column_count_to_equal", value=4),
    expect("table_columns_to_match_set", column_set=["age", "user_id", "blank", "nan"], exact_match=True),
    expect("table_columns_to_match_ordered_list", column_list=["user_id", "age", "blank", "nan"]),
    expect("table_row_count_to_be_between", min_value=1),
]


def test_expectations_about_the_table_go_by_their_own_answer(judge):
    outcome = judge(ABOUT_THE_TABLE, [None], [20])
    assert [row["result"] for row in outcome.table] == ["pass"] * len(ABOUT_THE_TABLE)
    wrong = [
        expect("column_to_exist", column="aeg"),
        expect("table_column_count_to_equal", value=9),
        expect("table_columns_to_match_set", column_set=["age"], exact_match=True),
        expect("table_row_count_to_be_between", max_value=1),
    ]
    assert {row["result"] for row in judge(wrong, [20, 30]).table} == {"fail"}


HUGE = 2**53


@pytest.mark.parametrize("ages", [[HUGE + 1, 5], [HUGE + 1, None, 5]])
def test_integers_are_compared_as_integers_with_a_null_among_them_or_not(judge, ages):
    fails = [
        between("age", 0, HUGE),
        expect("column_values_to_be_in_set", column="age", value_set=[HUGE, 5]),
        expect("column_distinct_values_to_be_in_set", column="age", value_set=[HUGE, 5]),
        expect("column_max_to_be_between", column="age", max_value=HUGE),
    ]
    holds = [
        between("age", 0, HUGE + 2),
        expect("column_values_to_be_in_set", column="age", value_set=[HUGE + 1, 5]),
        expect("column_sum_to_be_between", column="age", min_value=HUGE + 6, max_value=HUGE + 6),
        expect("column_max_to_be_between", column="age", max_value=HUGE + 2),
        expect("column_values_to_be_of_type", column="age", type_="int64"),
    ]
    assert [row["result"] for row in judge(fails, ages).table] == ["fail"] * len(fails)
    assert [row["result"] for row in judge(holds, ages).table] == ["pass"] * len(holds)


def test_columns_are_compared_with_each_other_where_values_are_missing(judge):
    pair = expect("column_pair_values_a_to_be_greater_than_b", column_A="age", column_B="age", or_equal=True)
    assert (
        judge([{**pair, "kwargs": {**pair["kwargs"], "ignore_row_if": "either_value_is_missing"}}], [1, None]).result
        == "pass"
    )


def test_a_limit_that_no_float_holds_is_refused(judge):
    with pytest.raises(ProfileError, match=r"max_value of .* is 9007199254740993, which Great Expectations reads as"):
        judge([between("age", 0, HUGE + 1)], [5])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (between("age", 0, {"$PARAMETER": "most"}), "max_value of .* is a parameter"),
        (expect("wonders", column="age"), "does not take expect_wonders"),
        ({"type": 5}, "quality.suite"),
        (expect("column_values_to_be_between", column="age", max_valu=1), "max_valu"),
    ],
)
def test_what_great_expectations_does_not_take_is_told_by_the_check(tmp_path, wrong, what):
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"expectations": [wrong]}))
    with pytest.raises(ProfileError, match=what):
        check_suite(path)
