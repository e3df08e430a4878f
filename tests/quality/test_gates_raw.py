"""The gate of the landed users: enough rows, all accounted for, about as many as before."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from profile_assets.quality.baseline import Baseline, Baselines
from profile_assets.quality.gates import Limits, Rules, check_names, judge_raw
from profile_assets.storage.layout import QUARANTINE_FILE, RAW_USERS, STAGES, USER_SHARDS, USERS_FILE
from profile_assets.storage.parquet import ParquetSink
from profile_assets.users.contract import Column, Contract
from profile_assets.users.quarantine import QUARANTINE

CONTRACT = Contract(id="customer", columns=(Column(name="age", type=pa.int64()),))
LIMITS = {"min_rows": 1, "max_row_change": 0.5, "max_null_rate_change": 0.1}


def users(*ids):
    return pa.table({"user_id": pa.array(ids, pa.string()), "age": pa.array([30] * len(ids), pa.int64())})


def by_check(outcomes):
    return {outcome.check: outcome for outcome in outcomes}


def baseline_of(day, rows):
    return Baseline(day=day, rows=rows, null_rates={}, digest="d")


@pytest.fixture
def judge(layout, day, landed):
    """The outcomes over landed users, by check."""

    def run(table, *, newest=4, weekday=4, aside=0, staged=None, **limits):
        baselines = Baselines(
            newest=None if newest is None else baseline_of(day, newest),
            weekday=None if weekday is None else baseline_of(day, weekday),
        )
        rules = Rules(contract=CONTRACT, limits=Limits(**{**LIMITS, **limits}))
        return by_check(judge_raw(layout, day, staged or landed(table, aside=aside), rules, baselines))

    return run


def test_every_stage_has_its_checks_by_name_and_no_two_are_alike():
    names = check_names()
    assert list(names) == list(STAGES)
    every = [name for stage in names.values() for name in stage]
    assert len(every) == len(set(every))
    assert check_names(has_suite=True)[USER_SHARDS][-1] == "suite"


def test_a_good_day_passes_every_check_of_its_stage(judge):
    found = judge(users(*"abcd"), aside=2)
    assert tuple(found) == check_names()[RAW_USERS]
    assert {outcome.result for outcome in found.values()} == {"pass"}
    assert (found["rows_match_read"].observed, found["rows_match_read"].limit) == (6, 6)


def test_an_empty_day_passes_nothing_even_where_no_row_is_asked_for(judge):
    found = judge(users(), min_rows=0, max_row_change=9.0, newest=None, weekday=None)
    assert not any(outcome.lets_through for outcome in found.values())
    assert found["min_rows"].limit == 1


def test_too_few_rows_fail(judge):
    outcome = judge(users(*"abcd"), min_rows=5)["min_rows"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 4, 5)


@pytest.mark.parametrize(
    ("rows_before", "max_change", "result"),
    [
        (4, 0.0, "pass"),
        (5, 0.0, "fail"),
        (8, 0.5, "pass"),
        (9, 0.5, "fail"),
        (2, 0.5, "fail"),
        (0, 9.0, "not_evaluated"),
        (4, math.nan, "fail"),
    ],
)
def test_the_row_count_is_held_against_the_newest_day_and_against_the_weekday(judge, rows_before, max_change, result):
    newest = judge(users(*"abcd"), newest=rows_before, max_row_change=max_change)
    weekday = judge(users(*"abcd"), weekday=rows_before, max_row_change_weekday=max_change)
    for outcome in (newest["row_count_change"], weekday["row_count_weekday"]):
        assert (outcome.result, outcome.baseline) == (result, rows_before)
        assert outcome.limit == max_change or math.isnan(max_change)
    assert newest["row_count_weekday"].result == weekday["row_count_change"].result == "pass"


def test_without_any_earlier_day_the_absolute_limits_alone_decide(judge):
    found = judge(users(*"abcd"), newest=None, weekday=None)
    assert {name: outcome.result for name, outcome in found.items()} == {
        "min_rows": "pass",
        "rows_match_read": "pass",
        "row_count_change": "no_baseline",
        "row_count_weekday": "no_baseline",
    }
    assert "8 days before" in found["row_count_change"].detail


@pytest.mark.parametrize("read", [5, 3, 0])
def test_rows_that_were_read_and_are_nowhere_or_twice_fail(judge, landed, read):
    found = judge(None, staged=landed(users(*"abcd"), read=read))
    assert found["rows_match_read"].result == "fail"
    assert "rows were read, 4 kept and 0 set aside" in found["rows_match_read"].detail


def test_a_quarantine_that_doubled_as_many_rows_as_it_lost_fails(layout, day, judge, landed):
    staged = landed(users(*"abcd"), aside=2)
    path = layout.staging(QUARANTINE, day) / QUARANTINE_FILE
    from pyarrow.parquet import ParquetFile

    rows = ParquetFile(path).read()
    with ParquetSink(path, rows.schema) as sink:
        sink.write(pa.concat_tables([rows.slice(0, 1)] * 2))
    outcome = judge(None, staged=staged)["rows_match_read"]
    assert (outcome.result, outcome.observed, outcome.limit) == ("fail", 6, 6)
    assert "are not the 2 that were set aside" in outcome.detail


def test_a_manifest_that_does_not_say_what_was_read_is_not_evaluated(judge, stage):
    staged = stage(RAW_USERS, {USERS_FILE: users(*"abcd")})
    assert judge(None, staged=staged)["rows_match_read"].result == "not_evaluated"


def test_a_file_with_other_rows_than_its_manifest_says_fails(judge, landed, stage):
    staged = landed(users(*"abcd"))
    other = stage("other", {USERS_FILE: users(*"abc")})
    (staged.folder / USERS_FILE).write_bytes((other.folder / USERS_FILE).read_bytes())
    outcome = judge(None, staged=staged)["rows_match_read"]
    assert (outcome.result, outcome.detail) == ("fail", "users.parquet has 3 rows, its manifest says 4")
