"""A profile's own Great Expectations suite, as JSON, run on the landed rows, one shard at a time.

Every expectation must have been evaluated on every shard that holds rows: one that Great Expectations does not know,
that raised, named no column or looked at no value at all passes nothing. An expectation about the table itself, such
as its columns, looks at no values and goes by its own answer. That one is satisfied in one shard hides no failure in
another.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from profile_assets.quality.expectations import raised
from profile_assets.quality.frames import frames_of
from profile_assets.quality.looks import MAX_SHARDS_SHOWN, worst_of
from profile_assets.quality.suite_file import expectations_of, name_of, read_suite
from profile_assets.storage.outcomes import Outcome, Result
from profile_assets.storage.parquet import corrupt_errors, open_parquet
from profile_assets.storage.verdicts import SUITE

_LOOKS_AT_MISSING = "expect_column_proportion_of_non_null_values_to_be_between"


@dataclass(kw_only=True)
class _Answers:
    """What was answered to one expectation over all shards."""

    name: str
    rows: int = 0
    values: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        if self.unanswered:
            return "not_evaluated"
        if self.failed:
            return "fail"
        return "pass" if self.values else "not_evaluated"

    @property
    def stopped(self) -> dict[str, str]:
        """Why it did not pass, by shard."""
        return {**self.unanswered, **self.failed}


def judge_suite(path: Path, shards: Sequence[tuple[str, Path]]) -> Outcome:
    """The outcome of the suite over the files of a day. ProfileError where it is no suite."""
    written = read_suite(path)
    asked = [_Answers(name=name_of(one)) for one in written["expectations"]]
    evaluated = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        expectations = expectations_of(path, written)
        batches = _batches()
        for shard, file in shards:
            table = _whole(file)
            if table.num_rows:
                evaluated += _judge_shard(expectations, batches, shard, table, asked)
    return _outcome(asked, evaluated)


def _batches() -> Any:
    """Where frames are handed in."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("shards").add_dataframe_asset("shards")
    return asset.add_batch_definition_whole_dataframe("shard")


def _whole(file: Path) -> pa.Table:
    with corrupt_errors(file), open_parquet(file) as opened:
        return opened.read()


def _judge_shard(
    expectations: Sequence[Any], batches: Any, shard: str, table: pa.Table, asked: Sequence[_Answers]
) -> int:
    """Run the suite on one shard; gives how many expectations were answered."""
    frames = frames_of(table)
    several = [one for one in expectations if not hasattr(one, "column")]
    single = [one for one in expectations if hasattr(one, "column")]
    counters = [_counter(one) for one in single if not _is_about_table(one)]  # few answers say what they looked at
    answers = _answers(batches, frames.one, [*single, *counters])
    answers += _answers(batches, frames.several, several)
    counts: dict[int, Any] = {}
    told: dict[int, Any] = {}
    for answer in answers:
        meta = answer.expectation_config.meta
        (counts if "counts" in meta else told)[meta["number"]] = answer
    for number, one in enumerate(expectations):
        if number not in told:
            asked[number].unanswered[shard] = "it was not evaluated"
        else:
            values = _values_seen(one, told[number].result or {}, counts.get(number), table.num_rows)
            _take(asked[number], shard, table.num_rows, values, told[number])
    return len(told)


def _answers(batches: Any, frame: Any, expectations: Sequence[Any]) -> list[Any]:
    import great_expectations as gx

    if not expectations:
        return []
    suite = gx.ExpectationSuite(name="shard", expectations=list(expectations))
    return list(batches.get_batch({"dataframe": frame}).validate(suite, result_format="SUMMARY").results)


def _is_about_table(one: Any) -> bool:
    """Whether an expectation is about the table itself: its columns, its number of rows."""
    return getattr(getattr(one, "domain_type", None), "value", None) == "table"


def _counter(one: Any) -> Any:
    """An expectation that is there for its counts: of the rows that `one` looks at, and the missing values there."""
    from great_expectations.expectations.core.expect_column_values_to_not_be_null import ExpectColumnValuesToNotBeNull

    return ExpectColumnValuesToNotBeNull(
        column=one.column,
        mostly=0,
        row_condition=getattr(one, "row_condition", None),
        condition_parser=getattr(one, "condition_parser", None),
        meta={"number": one.meta["number"], "counts": True},
    )


def _values_seen(one: Any, result: dict[str, Any], counts: Any, rows: int) -> int:
    """How many values an expectation looked at: it passes over missing ones. One for the table looks at all rows."""
    if _is_about_table(one):
        return rows
    if "element_count" in result:
        return int(result["element_count"]) - int(result.get("missing_count") or 0)
    found = {} if counts is None else counts.result or {}
    missing = 0 if one.expectation_type == _LOOKS_AT_MISSING else int(found.get("unexpected_count") or 0)
    return int(found.get("element_count") or 0) - missing


def _take(asked: _Answers, shard: str, rows: int, values: int, answer: Any) -> None:
    errors = list(raised(answer.exception_info or {}))
    result = answer.result or {}
    asked.rows += rows
    asked.values += values
    if errors:
        asked.unanswered[shard] = f"it raised: {errors[0]}"
    elif not answer.success or _is_beyond(result.get("observed_value"), answer.expectation_config.kwargs):
        asked.failed[shard] = _what_was_seen(result)


def _is_beyond(observed: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an integer that was observed is beyond its bounds. Great Expectations compares it as a float."""
    if not hasattr(observed, "__index__") or isinstance(observed, bool):
        return False
    exact = int(observed)
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    return (isinstance(low, int | float) and exact < low) or (isinstance(high, int | float) and exact > high)


def _what_was_seen(result: dict[str, Any]) -> str:
    if "unexpected_count" in result:
        return f"{result['unexpected_count']} of {result.get('element_count')} rows are not as expected"
    return f"observed {result.get('observed_value', 'nothing')}"


def _outcome(asked: Sequence[_Answers], evaluated: int) -> Outcome:
    results = [one.result for one in asked]
    told = [f"{one.name} in {shard}: {why}" for one in asked for shard, why in one.stopped.items()]
    told += [f"{one.name} looked at no value" for one in asked if not one.values and not one.stopped]
    more = f"; and {len(told) - MAX_SHARDS_SHOWN} more" if len(told) > MAX_SHARDS_SHOWN else ""
    return Outcome(
        check=SUITE,
        result=worst_of(results),
        observed=sum(result != "pass" for result in results),
        limit=0,
        detail="; ".join(told[:MAX_SHARDS_SHOWN]) + more or f"{len(asked)} expectations hold in every shard",
        table=tuple(
            {"expectation": one.name, "result": one.result, "rows": one.rows, "failed_shards": len(one.stopped)}
            for one in asked
        ),
        evaluated=evaluated,
    )
