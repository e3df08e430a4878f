"""Great Expectations passes only what it looked at."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_assets.quality.expectations import (
    CEILING,
    FLOOR,
    PRESENT,
    Expectation,
    Judged,
    answers_to,
    judge,
    refused_rows,
)


def one(observed, **bounds):
    (result,) = judge({"rate": observed}, [Expectation(measure="rate", **bounds)]).results
    return result


@pytest.mark.parametrize(
    ("observed", "bounds", "result"),
    [
        (0.0, {"maximum": 0.0}, "pass"),  # a limit of zero is a limit, and can be met
        (1e-9, {"maximum": 0.0}, "fail"),
        (0.1, {"maximum": 0.1}, "pass"),
        (0.5, {"minimum": 0.5, "maximum": 0.5}, "pass"),
        (0.4, {"minimum": 0.5}, "fail"),
        (7.0, {}, "pass"),
        (math.inf, {"minimum": 0.0}, "fail"),
        (-math.inf, {"maximum": 0.0}, "fail"),
        (math.inf, {}, "fail"),
        (math.nan, {}, "not_evaluated"),
        (math.nan, {"maximum": 1.0}, "not_evaluated"),
        (None, {"maximum": 1.0}, "not_evaluated"),
        (0.1, {"maximum": math.nan}, "fail"),
    ],
)
def test_a_measure_is_held_against_its_bounds(observed, bounds, result):
    assert one(observed, **bounds) == result


def test_a_misspelt_measure_is_not_evaluated_and_hides_no_other():
    expectations = [Expectation(measure="rtae", maximum=1.0), Expectation(measure="rate", maximum=0.0)]
    assert judge({"rate": 0.5}, expectations).results == ("not_evaluated", "fail")


def test_results_come_in_the_order_of_what_was_asked():
    asked = [Expectation(measure=f"m{n}", maximum=50.0) for n in range(100)]
    results = judge({f"m{n}": float(n) for n in range(100)}, asked).results
    assert results == ("pass",) * 51 + ("fail",) * 49


def test_nothing_asked_gives_no_results():
    assert judge({"rate": 1.0}, []) == Judged()


def test_what_great_expectations_answered_is_kept_and_no_row_with_it():
    asked = [Expectation(measure=f"m{n}", maximum=50.0) for n in range(100)]
    answers = judge({f"m{n}": float(n) for n in range(100)}, asked).answers
    assert {one["looks_at"]: (one["success"], one["unexpected_count"]) for one in answers} == {
        PRESENT: (True, 0),
        FLOOR: (True, 0),
        CEILING: (False, 49),
    }
    assert {one["element_count"] for one in answers} == {100}
    assert answers[2]["expectation"] == "expect_column_pair_values_a_to_be_greater_than_b"
    assert len(json.dumps(answers)) < 1000


@pytest.mark.parametrize("lost", ["minimum", "maximum", "observed"])
def test_an_expectation_that_raised_has_looked_at_nothing(lost):
    columns = {"number": [0.0], "observed": [0.0], "minimum": [0.0], "maximum": [0.0]}
    del columns[lost]
    refused = refused_rows(answers_to(columns), 1)
    asks = {"minimum": [FLOOR], "maximum": [CEILING], "observed": [PRESENT, FLOOR, CEILING]}[lost]
    assert {name for name, rows in refused.items() if rows is None} == set(asks)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(*[st.none() | st.floats()] * 3), min_size=1, max_size=30))
def test_only_finite_numbers_within_their_bounds_pass(cases):
    asked = [Expectation(measure=str(n), minimum=low, maximum=high) for n, (_, low, high) in enumerate(cases)]
    results = judge({str(n): observed for n, (observed, _, _) in enumerate(cases)}, asked).results
    for (observed, low, high), result in zip(cases, results, strict=True):
        is_number = observed is not None and math.isfinite(observed)
        is_within = is_number and (low is None or low <= observed) and (high is None or observed <= high)
        assert (result == "pass") == is_within
