"""One look at one number: a column's measure beside its limit and its baseline; and checks made of many looks.

All looks of a stage are judged by Great Expectations together, then told apart again by check. The outcome's table has
a row for each look, so that whoever reads it sees observed, limit and baseline of each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from profile_assets.quality.expectations import Expectation, judge
from profile_assets.storage.verdicts import Outcome, Result


@dataclass(frozen=True, kw_only=True)
class Look:
    """What `check` observes of a column. `limit` is the least (`floor`) or the greatest (`ceiling`) value allowed;
    None leaves that side open, to any finite number. `is_new` marks a comparison for which nothing earlier exists.
    """

    check: str
    column: str
    measure: str
    observed: float | None
    side: Literal["floor", "ceiling"] = "ceiling"
    limit: float | None = None
    baseline: float | None = None
    is_new: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def expectation(self) -> Expectation:
        is_floor = self.side == "floor"
        return Expectation(
            measure=self._name,
            minimum=self.limit if is_floor else None,
            maximum=None if is_floor else self.limit,
        )

    @property
    def _name(self) -> str:
        return f"{self.check}: {self.measure} of {self.column}"

    def row(self, result: Result) -> dict[str, Any]:
        """The look as a row of its outcome's table."""
        return {
            "column": self.column,
            "measure": self.measure,
            "observed": self.observed,
            "limit": self.limit,
            "baseline": self.baseline,
            "result": result,
            **self.counts,
        }

    def sentence(self, result: Result) -> str:
        limit = "a finite number" if self.limit is None else f"{self.limit:g}"
        bound = "at least" if self.side == "floor" else "at most"
        observed = "not known" if self.observed is None else f"{self.observed:g}"
        return f"{self.measure} of {self.column} is {observed}, allowed {bound} {limit} ({result})"


def judge_looks(looks: Sequence[Look]) -> dict[str, Outcome]:
    """An outcome for each check that has looks, by its name."""
    evaluated = [look for look in looks if not look.is_new]
    answers = judge(
        {look.expectation.measure: look.observed for look in evaluated}, [look.expectation for look in evaluated]
    )
    results: dict[int, Result] = {id(look): result for look, result in zip(evaluated, answers, strict=True)}
    checks: dict[str, list[tuple[Look, Result]]] = {}
    for look in looks:
        checks.setdefault(look.check, []).append((look, results.get(id(look), "no_baseline")))
    return {check: _outcome(check, judged) for check, judged in checks.items()}


def _outcome(check: str, judged: Sequence[tuple[Look, Result]]) -> Outcome:
    result = _worst(found for _, found in judged)
    stopped = [(look, found) for look, found in judged if found not in ("pass", "no_baseline")]
    shown = stopped[0][0] if stopped else max((look for look, _ in judged), key=_closeness)
    return Outcome(
        check=check,
        result=result,
        observed=shown.observed,
        limit=shown.limit,
        baseline=shown.baseline,
        detail=_detail(judged, stopped),
        table=tuple(look.row(found) for look, found in judged),
    )


def _worst(results: Iterable[Result]) -> Result:
    """The result of several looks at one thing. Comparisons that cannot be made pass nothing by themselves."""
    found = set(results)
    if "fail" in found:
        return "fail"
    if "not_evaluated" in found or "pass" not in found:
        return "not_evaluated"
    return "no_baseline" if "no_baseline" in found else "pass"


def _closeness(look: Look) -> float:
    """How near a look that passed came to its limit: the nearest one stands for its check."""
    if look.observed is None or look.limit is None:
        return float("-inf")
    return look.limit - look.observed if look.side == "floor" else look.observed - look.limit


def _detail(judged: Sequence[tuple[Look, Result]], stopped: Sequence[tuple[Look, Result]]) -> str:
    if stopped:
        return "; ".join(look.sentence(found) for look, found in stopped)
    new = sum(look.is_new for look, _ in judged)
    return f"{len(judged) - new} limits hold" + (f"; {new} comparisons have no earlier day yet" if new else "")
