"""A profile's own Great Expectations suite, as JSON, run on the landed rows, one shard at a time.

Every expectation must have been evaluated on every shard that holds rows: one that Great Expectations does not know,
that raised, named no column or looked at no value at all passes nothing. That it is satisfied in one shard hides no
failure in another.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from profile_assets.errors import ProfileError
from profile_assets.quality.expectations import raised
from profile_assets.quality.looks import MAX_SHARDS_SHOWN, worst_of
from profile_assets.storage.outcomes import Outcome, Result
from profile_assets.storage.parquet import corrupt_errors, open_parquet
from profile_assets.storage.verdicts import SUITE


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


def read_suite(path: Path) -> dict[str, Any]:
    """The suite in a file. ProfileError where it is none, or asks for nothing."""
    remedy = "write there what Great Expectations' suite.to_json_dict() gives, with at least one expectation"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileError(f"quality.suite: {path} cannot be read: {error}", remedy=remedy) from error
    expectations = value.get("expectations") if isinstance(value, dict) else None
    if not isinstance(expectations, list) or not expectations:
        raise ProfileError(f"quality.suite: {path} names no expectations", remedy=remedy)
    if not all(isinstance(one, dict) and "type" in one for one in expectations):
        raise ProfileError(f"quality.suite: {path} has an expectation without a type", remedy=remedy)
    return {"name": str(value.get("name", path.stem)), "expectations": expectations}


def judge_suite(path: Path, shards: Sequence[tuple[str, Path]]) -> Outcome:
    """The outcome of the suite over the files of a day. ProfileError where it is no suite."""
    written = read_suite(path)
    asked = [_Answers(name=_name(one)) for one in written["expectations"]]
    evaluated = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import touches modules that Python has deprecated
        suite, asset = _prepared(path, written)
        for shard, file in shards:
            table = _whole(file)
            if table.num_rows:
                evaluated += _judge_shard(suite, asset, shard, table, asked)
    return _outcome(asked, evaluated)


def _prepared(path: Path, written: dict[str, Any]) -> tuple[Any, Any]:
    """The suite as Great Expectations has it, whole, and where shards are handed in."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.exceptions.exceptions import GreatExpectationsError

    try:
        suite = gx.ExpectationSuite(**written)
    except (GreatExpectationsError, TypeError, ValueError) as error:
        raise ProfileError(f"quality.suite: {path}: {error}", remedy="correct that expectation") from error
    known = [one.expectation_type for one in suite.expectations]
    if len(known) != len(written["expectations"]):  # what it does not know, it only logs
        unknown = sorted({str(one["type"]) for one in written["expectations"]} - set(known))
        raise ProfileError(
            f"quality.suite: {path}: Great Expectations does not take {', '.join(unknown) or 'one of them'}",
            remedy="correct the type, or install the package that brings it",
        )
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("shards").add_dataframe_asset("shards")
    return suite, asset.add_batch_definition_whole_dataframe("shard")


def _whole(file: Path) -> pa.Table:
    with corrupt_errors(file), open_parquet(file) as opened:
        return opened.read()


def _judge_shard(suite: Any, batches: Any, shard: str, table: pa.Table, asked: Sequence[_Answers]) -> int:
    """Run the suite on one shard; gives how many expectations were answered."""
    batch = batches.get_batch({"dataframe": table.to_pandas()})
    for number, one in enumerate(suite.expectations):
        one.meta = {**(one.meta or {}), "number": number}
    answers = batch.validate(suite, result_format="SUMMARY").results
    seen: set[int] = set()
    for answer in answers:
        config = answer.expectation_config
        number = config.meta["number"]
        seen.add(number)
        _take(asked[number], shard, table.num_rows, answer)
    for number in set(range(len(asked))) - seen:
        asked[number].unanswered[shard] = "it was not evaluated"
    return len(seen)


def _take(asked: _Answers, shard: str, rows: int, answer: Any) -> None:
    errors = list(raised(answer.exception_info or {}))
    asked.rows += rows
    asked.values += _values_seen(answer.result or {}, rows)
    if errors:
        asked.unanswered[shard] = f"it raised: {errors[0]}"
    elif not answer.success:
        asked.failed[shard] = _what_was_seen(answer.result or {})


def _values_seen(result: dict[str, Any], rows: int) -> int:
    """How many values a rule for rows looked at: it passes over missing ones. A rule for the table looks at all."""
    if "element_count" not in result:
        return rows if result else 0
    return int(result["element_count"]) - int(result.get("missing_count") or 0)


def _what_was_seen(result: dict[str, Any]) -> str:
    if "unexpected_count" in result:
        return f"{result['unexpected_count']} of {result.get('element_count')} rows are not as expected"
    return f"observed {result.get('observed_value', 'nothing')}"


def _name(expectation: dict[str, Any]) -> str:
    """`expect_column_values_to_be_between(age)`"""
    kwargs = expectation.get("kwargs") or {}
    columns = [str(value) for key, value in kwargs.items() if key.startswith("column")]
    return f"{expectation['type']}({', '.join(columns)})"


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
