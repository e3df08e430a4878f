"""Great Expectations over a table of measures: a row for each expectation, with what was observed and its bounds.

What it answered is kept in its own words, beside what was made of it here. Its verdict is taken only where it really
looked: an expectation that raised, or asked for a measure that is not there or is NaN, counts as not evaluated, never
as a pass; infinity counts as a failure. The rows of the users' tables are never shown to it. The import costs seconds,
so it happens inside the call; the judging itself takes a tenth of one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Result = Literal["pass", "fail", "not_evaluated"]

_COUNTS = ("element_count", "missing_count", "unexpected_count", "unexpected_percent")
PRESENT, FLOOR, CEILING = "present", "floor", "ceiling"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A measure that is to lie within bounds, both included; None leaves that side open."""

    measure: str
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A result for each expectation, in their order; and what Great Expectations answered to each of its own, which
    look at all of them at once: success and the counts of its SUMMARY, or what was raised.
    """

    results: tuple[Result, ...] = ()
    answers: tuple[Mapping[str, Any], ...] = ()


def judge(measures: Mapping[str, float | None], expectations: Sequence[Expectation]) -> Judged:
    """Hold what was observed, by the measure's name, against its bounds."""
    if not expectations:
        return Judged()
    observed = [measures.get(expected.measure) for expected in expectations]
    columns = {
        "number": range(len(expectations)),
        "observed": [math.nan if value is None else float(value) for value in observed],
        "minimum": [-math.inf if expected.minimum is None else expected.minimum for expected in expectations],
        "maximum": [math.inf if expected.maximum is None else expected.maximum for expected in expectations],
    }
    answers = answers_to(columns)
    refused = refused_rows(answers, len(expectations))
    results = tuple(_result(number, value, refused) for number, value in enumerate(columns["observed"]))
    return Judged(results=results, answers=tuple(map(_told, answers)))


def answers_to(columns: Mapping[str, Iterable[float]]) -> list[Any]:
    """Great Expectations' own results over these rows, one for each of the expectations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import touches modules that Python has deprecated
        import great_expectations as gx
        import pandas as pd
        from great_expectations.data_context.types.base import ProgressBarsConfig

        rows = pd.DataFrame({name: list(values) for name, values in columns.items()})
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        asset = context.data_sources.add_pandas("measures").add_dataframe_asset("measures")
        batch = asset.add_batch_definition_whole_dataframe("measures").get_batch({"dataframe": rows})
        suite = gx.ExpectationSuite(name="limits", expectations=_suite(gx.expectations))
        # Otherwise only the first twenty of the refused rows would be named.
        every_row = {"result_format": "COMPLETE", "unexpected_index_column_names": ["number"]}
        return list(batch.validate(suite, result_format=every_row).results)


def refused_rows(answers: Iterable[Any], num_rows: int) -> dict[str, set[int] | None]:
    """The numbers of the rows refused by each of the expectations; None for one that did not look at every row."""
    refused: dict[str, set[int] | None] = dict.fromkeys((PRESENT, FLOOR, CEILING))
    for answer in answers:
        asked = answer.expectation_config
        if asked is not None and asked.meta is not None:
            refused[asked.meta["looks_at"]] = _refused(answer, num_rows)
    return refused


def raised(info: Mapping[str, Any]) -> Iterator[str]:
    """The messages of what was raised: the info is that of one exception, or of one for each metric."""
    for one in [info] if "raised_exception" in info else info.values():
        if isinstance(one, dict) and one.get("raised_exception"):
            yield str(one.get("exception_message"))


def _told(answer: Any) -> dict[str, Any]:
    """An answer as the record keeps it: the rows themselves stand in the outcomes' tables."""
    asked = answer.expectation_config
    counts = {name: answer.result[name] for name in _COUNTS if name in answer.result}
    errors = list(raised(answer.exception_info or {}))
    told = {"expectation": asked.type, "looks_at": asked.meta["looks_at"], "success": bool(answer.success), **counts}
    return {**told, "raised": errors[0]} if errors else told


def _suite(kinds: Any) -> list[Any]:
    """`neither` means that no row is passed over: by default, missing values would be."""
    above = kinds.ExpectColumnPairValuesAToBeGreaterThanB
    every_row = {"or_equal": True, "ignore_row_if": "neither"}
    return [
        kinds.ExpectColumnValuesToNotBeNull(column="observed", meta={"looks_at": PRESENT}),
        above(column_A="observed", column_B="minimum", meta={"looks_at": FLOOR}, **every_row),
        above(column_A="maximum", column_B="observed", meta={"looks_at": CEILING}, **every_row),
    ]


def _refused(answer: Any, num_rows: int) -> set[int] | None:
    """The rows that one expectation refused. One that raised says nothing of elements, whatever else it says."""
    if answer.result.get("element_count") != num_rows:
        return None
    found = answer.result.get("unexpected_index_list") or []
    if len(found) != answer.result["unexpected_count"]:
        return None
    return {int(row["number"]) for row in found}


def _result(number: int, observed: float, refused: Mapping[str, set[int] | None]) -> Result:
    absent, below, above = refused[PRESENT], refused[FLOOR], refused[CEILING]
    if absent is None or below is None or above is None or number in absent:
        return "not_evaluated"
    is_within = number not in below and number not in above and math.isfinite(observed)
    return "pass" if is_within else "fail"
