"""Alternating rounds: every contestant once a round, the order turned each time, and ratios taken within a round.

A noisy neighbour then slows all of them alike; medians and the spread over rounds say how much noise is left.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.process import Measured


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A module to run, with its options. `needs`: packages without which it is not run. `cores`: pinned to so many."""

    name: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    cores: int | None = None
    gives_scores: bool = True

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Every run of every contestant, in the order of rounds; and who was not run, with what was missing."""

    users: int
    runs: Mapping[str, Sequence[Measured]]
    not_run: Mapping[str, tuple[str, ...]]

    def cpu_us(self, name: str) -> Spread:
        """CPU microseconds per user."""
        return spread([run.cpu_s / self.users * 1e6 for run in self.runs[name]])

    def peak_mb(self, name: str) -> float:
        return max(run.peak_mb for run in self.runs[name])

    def start_cpu_s(self, name: str) -> float:
        return statistics.median(run.start_cpu_s for run in self.runs[name])

    def speed(self, name: str, over: Sequence[str]) -> Spread:
        """How many times as fast as the fastest of `over`, by the clock, round by round."""
        others = [min(runs) for runs in zip(*(self._seconds(other) for other in over), strict=True)]
        return spread([other / own for own, other in zip(self._seconds(name), others, strict=True)])

    def cpu_saving(self, name: str, over: Sequence[str]) -> Spread:
        """How many times the CPU time the most frugal of `over` takes, round by round."""
        others = [min(run.cpu_s for run in runs) for runs in zip(*(self.runs[other] for other in over), strict=True)]
        return spread([other / run.cpu_s for run, other in zip(self.runs[name], others, strict=True)])

    def cpu_share(self, name: str, of: Sequence[str]) -> Spread:
        """CPU time as a multiple of the sum of others', round by round."""
        whole = [sum(run.cpu_s for run in runs) for runs in zip(*(self.runs[other] for other in of), strict=True)]
        return spread([run.cpu_s / total for run, total in zip(self.runs[name], whole, strict=True)])

    def to_json(self) -> dict[str, Any]:
        return {
            "users": self.users,
            "runs": {name: [asdict(run) for run in runs] for name, runs in self.runs.items()},
            "not_run": {name: list(missing) for name, missing in self.not_run.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Results:
        runs = {name: [Measured(**run) for run in runs] for name, runs in value["runs"].items()}
        return cls(users=value["users"], runs=runs, not_run=value["not_run"])

    def _seconds(self, name: str) -> list[float]:
        return [run.seconds for run in self.runs[name]]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of a few numbers, and the least and greatest of them."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.least)} to {_short(self.greatest)})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(median=statistics.median(values), least=min(values), greatest=max(values))


def play(
    contestants: Sequence[Contestant],
    *,
    users: int,
    rounds: int,
    run: Callable[[Contestant, int], Measured],
) -> Results:
    """Run them all, `rounds` times. `run` is given the contestant and the number of the round."""
    present = [one for one in contestants if not one.missing]
    runs: dict[str, list[Measured]] = {one.name: [] for one in present}
    for number in range(rounds):
        turn = number % max(1, len(present))
        for one in present[turn:] + present[:turn]:
            runs[one.name].append(run(one, number))
    return Results(users=users, runs=runs, not_run={one.name: one.missing for one in contestants if one.missing})


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
