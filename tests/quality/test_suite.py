"""A suite of one's own: run on every shard, and what it did not look at passes nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from profile_assets.errors import ProfileError
from profile_assets.quality.suite import judge_suite
from profile_assets.storage.parquet import ParquetSink


def between(column, low, high):
    kwargs = {"column": column, "min_value": low, "max_value": high}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs}


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
