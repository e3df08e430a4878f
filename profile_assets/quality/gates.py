"""The checks that each stage of a day goes through, on data that is staged and not yet seen.

Counts and digests are compared here; null rates, ranges and uniqueness go through Great Expectations. Each function
gives an outcome for every check of its stage, and none of them passes an empty table, a column that is not there or a
number that is none. The only other day that is ever read is the baseline.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profile_assets.errors import AccountingError
from profile_assets.quality.baseline import MAX_AGE_DAYS
from profile_assets.quality.baseline import Baseline as Baseline
from profile_assets.quality.baseline import find_baseline as find_baseline
from profile_assets.quality.looks import Look, judge_looks
from profile_assets.quality.matching import publication_matches, rows_match
from profile_assets.quality.measures import ColumnMeasure, column_measures, measure_files
from profile_assets.quality.uniqueness import IdHashes, num_repeats
from profile_assets.quality.users_table import null_rate_looks, range_looks, repeated_ids_look
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import open_parquet
from profile_assets.storage.published import read_part_record
from profile_assets.storage.stages import ID_COLUMN, Staged, current
from profile_assets.storage.verdicts import CHECKS, Outcome
from profile_assets.users.contract import Contract

SCORE_COLUMN = "score"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a day is too bad to be seen. 0 is a limit.

    `max_row_change` is relative and `max_null_rate_change` absolute, both against the baseline.
    """

    min_rows: int
    max_row_change: float
    max_null_rate_change: float
    score_minimum: float = 0.0
    score_maximum: float = 1.0


def check_names() -> Mapping[str, tuple[str, ...]]:
    """The names of the checks of each stage."""
    return CHECKS


def judge_raw(staged: Staged, contract: Contract, limits: Limits, baseline: Baseline | None) -> tuple[Outcome, ...]:
    """The landed users: enough of them, like the baseline's, each once, and within the contract's limits."""
    measures, repeated = _measure(staged, contract.schema.names)
    looked = judge_looks(
        [
            *null_rate_looks(measures, contract, limits.max_null_rate_change, baseline),
            *range_looks(measures, contract.columns),
            repeated,
        ]
    )
    rows = staged.manifest.rows
    counted = [_min_rows(rows, limits), _row_count_change(rows, limits, baseline)]
    ranges = looked.get("ranges", _no_numbers())
    return (*counted, looked["null_rates"], ranges, looked["unique_ids"])


def judge_shards(layout: Layout, day: dt.date, staged: Staged) -> tuple[Outcome, ...]:
    """The shards: together exactly the landed users."""
    return (rows_match("rows_match_raw", layout, day, staged, RAW_USERS),)


def judge_scores(layout: Layout, day: dt.date, staged: Staged, limits: Limits) -> tuple[Outcome, ...]:
    """The scores: for exactly the users of each shard, each once, and every one a number within the limits."""
    measures, repeated = _measure(staged, (ID_COLUMN, SCORE_COLUMN))
    scores = measures.get(SCORE_COLUMN, ColumnMeasure(column=SCORE_COLUMN))
    looked = judge_looks([*_score_looks(scores, limits), repeated])
    matched = rows_match("rows_match_shards", layout, day, staged, USER_SHARDS)
    return (matched, looked["scores_valid"], looked["unique_ids"])


def judge_export(layout: Layout, day: dt.date) -> tuple[Outcome, ...]:
    """The published file: exactly the scored users. Call it once the day is published."""
    check = "rows_match_scores"
    scores, published = current(layout, USER_SCORES, day), read_part_record(layout, day)
    if scores is None or published is None:
        return (Outcome(check=check, result="not_evaluated", detail=f"{day} lacks its scores or is not published"),)
    with open_parquet(layout.offline_part(day)) as file:
        rows = int(file.metadata.num_rows)
    return (publication_matches(check, published, rows, scores),)


def _measure(staged: Staged, columns: Sequence[str]) -> tuple[dict[str, ColumnMeasure], Look]:
    """The measures of the staged files by column, and the look at repeated ids; AccountingError if rows went astray."""
    ids = IdHashes()
    paths = [staged.folder / entry.name for entry in staged.manifest.files]
    measures = column_measures(measure_files(paths, columns, ids=ids))
    rows = max((found.rows for found in measures.values()), default=0)
    if rows != staged.manifest.rows:
        raise AccountingError(
            f"{staged.folder} has {rows} rows, its manifest says {staged.manifest.rows}",
            remedy=f"run {staged.manifest.stage} of {staged.manifest.day} again",
        )
    return measures, repeated_ids_look(rows, num_repeats(paths, ids.repeated()))


def _score_looks(scores: ColumnMeasure, limits: Limits) -> list[Look]:
    check, column = "scores_valid", SCORE_COLUMN
    low, high = scores.minimum, scores.maximum
    return [
        Look(check=check, column=column, measure="null_rate", observed=scores.null_rate, limit=0.0),
        Look(check=check, column=column, measure="minimum", observed=low, side="floor", limit=limits.score_minimum),
        Look(check=check, column=column, measure="maximum", observed=high, limit=limits.score_maximum),
    ]


def _min_rows(rows: int, limits: Limits) -> Outcome:
    """An empty day fails whatever the limit: nothing can be said of nothing."""
    return Outcome(
        check="min_rows",
        result="pass" if rows > 0 and rows >= limits.min_rows else "fail",
        observed=rows,
        limit=limits.min_rows,
        detail=f"{rows} rows, at least {max(1, limits.min_rows)} are asked for",
    )


def _row_count_change(rows: int, limits: Limits, baseline: Baseline | None) -> Outcome:
    check, limit = "row_count_change", limits.max_row_change
    if baseline is None:
        nothing = f"nothing was published in the {MAX_AGE_DAYS} days before"
        return Outcome(check=check, result="no_baseline", observed=rows, limit=limit, detail=nothing)
    if rows == 0 or baseline.rows == 0:
        return Outcome(check=check, result="not_evaluated", limit=limit, detail="there are no rows to compare")
    change = abs(rows - baseline.rows) / baseline.rows
    return Outcome(
        check=check,
        result="pass" if change <= limit else "fail",
        observed=change,
        limit=limit,
        baseline=baseline.rows,
        detail=f"{rows} rows after {baseline.rows} on {baseline.day}: {change:.1%} of change, {limit:.1%} allowed",
    )


def _no_numbers() -> Outcome:
    """The users hold no number at all, so that there is no bound to break; missing values are judged elsewhere."""
    return Outcome(check="ranges", result="pass", detail="no column holds a number")
