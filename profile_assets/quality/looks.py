"""One look at one number: what was measured, beside its limit and its baseline; and checks made of many looks.

All looks of a stage, those at single shards and those at the day, are judged by Great Expectations together, then told
apart again by check. The outcome's table has a row for each look at the day and for each at a shard that stopped it,
so that whoever reads it sees observed, limit and baseline of each column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from profile_assets.errors import GateError
from profile_assets.quality.expectations import Expectation, judge
from profile_assets.storage.outcomes import Outcome, Result, Severity

DAY = "day"
MAX_SHARDS_SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class Look:
    """What `check` observes of a column, of the day or of one `shard`.

    `limit` is the least (`floor`) or the greatest (`ceiling`) value allowed; None leaves that side open, to any finite
    number. `absent` says why there is proven to be nothing to compare with; such a look is not evaluated, and is no
    failure. `severity` "warn" lets a failure through.
    """

    check: str
    column: str
    measure: str
    observed: float | None
    side: Literal["floor", "ceiling"] = "ceiling"
    limit: float | None = None
    baseline: float | None = None
    absent: str = ""
    shard: str = DAY
    severity: Severity = "error"
    counts: Mapping[str, Any] = field(default_factory=dict)

    def expectation(self, name: str) -> Expectation:
        is_floor = self.side == "floor"
        return Expectation(
            measure=name, minimum=self.limit if is_floor else None, maximum=None if is_floor else self.limit
        )

    def row(self, result: Result) -> dict[str, Any]:
        """The look as a row of its outcome's table."""
        return {
            "column": self.column,
            "shard": self.shard,
            "measure": self.measure,
            "observed": self.observed,
            "limit": self.limit,
            "baseline": self.baseline,
            "result": result,
            **self.counts,
        }

    def sentence(self, result: Result) -> str:
        limit = "a finite number" if self.limit is None else f"{self.limit:.6g}"
        bound = "at least" if self.side == "floor" else "at most"
        observed = "not known" if self.observed is None else f"{self.observed:.6g}"
        where = "" if self.shard == DAY else f" in {self.shard}"
        return f"{self.measure} of {self.column}{where} is {observed}, allowed {bound} {limit} ({result})"


def judge_looks(looks: Sequence[Look]) -> dict[str, Outcome]:
    """An outcome for each check that has looks, by its name. GateError unless every look got its answer."""
    evaluated = [look for look in looks if not look.absent]
    names = [str(number) for number in range(len(evaluated))]
    judged = judge(
        {name: look.observed for name, look in zip(names, evaluated, strict=True)},
        [look.expectation(name) for name, look in zip(names, evaluated, strict=True)],
    )
    if len(judged.results) != len(evaluated):
        raise GateError(
            f"{len(evaluated)} expectations were asked for and {len(judged.results)} evaluated",
            remedy="run the day again; if it comes back, the installed great-expectations is not the one tested here",
        )
    results: dict[int, Result] = {id(look): result for look, result in zip(evaluated, judged.results, strict=True)}
    checks: dict[str, list[tuple[Look, Result]]] = {}
    for look in looks:
        checks.setdefault(look.check, []).append((look, results.get(id(look), "no_baseline")))
    return {check: _outcome(check, found, judged.answers) for check, found in checks.items()}


def _outcome(check: str, judged: Sequence[tuple[Look, Result]], answers: tuple[Mapping[str, Any], ...]) -> Outcome:
    is_asked = any(not look.absent for look, _ in judged)
    stopped = [(look, found) for look, found in judged if found not in ("pass", "no_baseline")]
    shown = stopped[0][0] if stopped else max((look for look, _ in judged), key=_closeness)
    shown_shards = [(look, found) for look, found in stopped if look.shard != DAY][:MAX_SHARDS_SHOWN]
    return Outcome(
        check=check,
        result=worst_of(found for _, found in judged),
        observed=shown.observed,
        limit=shown.limit,
        baseline=shown.baseline,
        detail=_detail(judged, stopped),
        table=tuple(
            look.row(found) for look, found in [*((one, of) for one, of in judged if one.shard == DAY), *shown_shards]
        ),
        severity="warn" if stopped and all(map(_only_warns, stopped)) else "error",
        evaluated=sum(not look.absent for look, _ in judged),
        answers=answers if is_asked else (),
    )


def _only_warns(judged: tuple[Look, Result]) -> bool:
    look, found = judged
    return look.severity == "warn" and found == "fail"


def worst_of(results: Iterable[Result]) -> Result:
    """The result of several looks at one thing. Looking at nothing passes nothing.

    What was not evaluated comes before what failed: a person may release a failure, and would release both.
    """
    found = set(results)
    for result in ("not_evaluated", "fail", "no_baseline", "pass"):
        if result in found:
            return result
    return "not_evaluated"


def _closeness(look: Look) -> float:
    """How near a look that passed came to its limit: the nearest one stands for its check."""
    if look.observed is None or look.limit is None or math.isnan(look.observed):
        return float("-inf")
    return look.limit - look.observed if look.side == "floor" else look.observed - look.limit


def _detail(judged: Sequence[tuple[Look, Result]], stopped: Sequence[tuple[Look, Result]]) -> str:
    if stopped:
        more = f"; and {len(stopped) - MAX_SHARDS_SHOWN} more" if len(stopped) > MAX_SHARDS_SHOWN else ""
        return "; ".join(look.sentence(found) for look, found in stopped[:MAX_SHARDS_SHOWN]) + more
    absent = [look for look, _ in judged if look.absent]
    held = f"{len(judged) - len(absent)} limits hold"
    return held + "".join(f"; {why}" for why in dict.fromkeys(look.absent for look in absent))
