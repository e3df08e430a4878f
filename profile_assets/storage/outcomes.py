"""What checks found about a stage, as values and as JSON: outcomes, releases, and the verdict over one stage.

There are four results, and only two of them let a day through. A person may release a stage's staged data through a
check that failed: a release names the digest, so that it holds for that very data alone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Result = Literal["pass", "fail", "not_evaluated", "no_baseline"]
"""`no_baseline`: every absolute limit holds, and it is proven that there is nothing to compare with: no earlier day,
or too few rows to tell a difference from chance."""

Severity = Literal["error", "warn"]

UNRELEASABLE = frozenset(
    ("rows_match_read", "rows_match_raw", "rows_match_shards", "rows_match_scores", "unique_ids", "scores_valid")
)
"""Checks that no person can let data through: rows were lost or doubled, or a score is none."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one check found. `table` holds a row for each column or file looked at, all with the same keys.

    `evaluated` is how many expectations were evaluated for it; a failure of severity "warn" stops nothing. `answers`
    are Great Expectations' own, to what it was asked of all looks of the stage together.
    """

    check: str
    result: Result
    observed: float | None = None
    limit: float | None = None
    baseline: float | None = None
    detail: str
    table: tuple[Mapping[str, Any], ...] = ()
    severity: Severity = "error"
    evaluated: int | None = None
    answers: tuple[Mapping[str, Any], ...] = ()

    @property
    def told(self) -> str:
        """`min_rows (fail): 3 rows, at least 10 are asked for`"""
        return f"{self.check} ({self.result}): {self.detail}"

    @property
    def lets_through(self) -> bool:
        return self.result in ("pass", "no_baseline") or (self.result == "fail" and self.severity == "warn")


@dataclass(frozen=True, kw_only=True)
class Release:
    """Somebody let the data that the verdict names through a check that it failed. `at` is ISO 8601 in UTC."""

    check: str
    digest: str
    by: str
    at: str
    why: str


@dataclass(frozen=True, kw_only=True)
class StageVerdict:
    """What was found about one stage: `digest` is the manifest digest judged, the baselines what it was held against:
    the newest earlier published day, and that of the same weekday.
    """

    stage: str
    digest: str
    outcomes: tuple[Outcome, ...]
    baseline_day: dt.date | None = None
    baseline_digest: str | None = None
    weekday_day: dt.date | None = None
    weekday_digest: str | None = None
    releases: tuple[Release, ...] = ()

    def outcome(self, check: str) -> Outcome | None:
        """The outcome of one check; None where it was never evaluated."""
        return next((outcome for outcome in self.outcomes if outcome.check == check), None)

    def release(self, check: str) -> Release | None:
        """The release of this very data through a check; None where there is none."""
        found = (one for one in self.releases if one.check == check and one.digest == self.digest)
        return None if check in UNRELEASABLE else next(found, None)

    @property
    def stopping(self) -> tuple[Outcome, ...]:
        """The outcomes that let nothing through and were not released. What was not evaluated cannot be."""
        return tuple(
            outcome
            for outcome in self.outcomes
            if not outcome.lets_through and (outcome.result != "fail" or self.release(outcome.check) is None)
        )


def stage_to_json(stage: StageVerdict) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "digest": stage.digest,
        "outcomes": [_outcome_to_json(outcome) for outcome in stage.outcomes],
        "baseline_day": None if stage.baseline_day is None else stage.baseline_day.isoformat(),
        "baseline_digest": stage.baseline_digest,
        "weekday_day": None if stage.weekday_day is None else stage.weekday_day.isoformat(),
        "weekday_digest": stage.weekday_digest,
        "releases": [dataclasses.asdict(one) for one in stage.releases],
    }


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    # Where there are none nothing is said of them, as in records from before they were kept.
    answers = {"great_expectations": _plain_rows(outcome.answers)} if outcome.answers else {}
    return {
        "check": outcome.check,
        "result": outcome.result,
        "observed": _plain(outcome.observed),
        "limit": _plain(outcome.limit),
        "baseline": _plain(outcome.baseline),
        "detail": outcome.detail,
        "severity": outcome.severity,
        "evaluated": outcome.evaluated,
        "table": _plain_rows(outcome.table),
        **answers,
    }


def _plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """A value that JSON can hold: NaN and infinity become their names, as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def stage_from_json(value: Mapping[str, Any]) -> StageVerdict:
    return StageVerdict(
        stage=value["stage"],
        digest=value["digest"],
        outcomes=tuple(_outcome_from_json(outcome) for outcome in value["outcomes"]),
        baseline_day=_date(value["baseline_day"]),
        baseline_digest=value["baseline_digest"],
        weekday_day=_date(value["weekday_day"]),
        weekday_digest=value["weekday_digest"],
        releases=tuple(Release(**one) for one in value["releases"]),
    )


def _date(text: str | None) -> dt.date | None:
    return None if text is None else dt.date.fromisoformat(text)


def _outcome_from_json(value: Mapping[str, Any]) -> Outcome:
    for name, known in (("result", Result), ("severity", Severity)):
        if value[name] not in get_args(known):
            raise ValueError(f"the {name} {value[name]!r}")
    numbers = {name: _number(value[name]) for name in ("observed", "limit", "baseline")}
    return Outcome(
        check=value["check"],
        result=value["result"],
        detail=value["detail"],
        table=tuple(value["table"]),
        severity=value["severity"],
        evaluated=value["evaluated"],
        answers=tuple(value.get("great_expectations", ())),
        **numbers,
    )


def _number(value: float | str | None) -> float | None:
    return None if value is None else float(value)
