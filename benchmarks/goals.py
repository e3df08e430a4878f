"""What was to be reached, beside what was measured: each goal as a ratio within one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import contestants as who
from benchmarks.rounds import Results, Spread

IN_FULL = "the second day, in full"
INCREMENTAL = "the second day, incrementally"
FLAT_MB = 100
FLAT_FROM = 125_000  # users; below it fixed costs are all there is


@dataclass(frozen=True, kw_only=True)
class Goal:
    """One line of the goals' table. `is_met` is None where it was not measured."""

    what: str
    goal: str
    measured: str
    is_met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "short", None: "not measured"}[self.is_met]


def of_scoring(results: Results) -> list[Goal]:
    """The goals that one run of `scoring` can judge."""
    goals = [
        _at_least("scoring, one process, over the usual code", 20, results, who.OURS, [who.PANDAS]),
        _at_least("scoring, one process, over forward only", 0.7, results, who.OURS, [who.FORWARD]),
        _at_least("the same, pinned to that one core", 0.7, results, who.OURS_ONE_CORE, [who.FORWARD]),
    ]
    for name, peers in (("Ray Data", who.RAY), ("Spark", who.SPARK)):
        goals.append(
            _at_least(f"scoring, all cores, over {name} at its best setting", 10, results, who.OURS_ALL, peers)
        )
    share = results.cpu_share(who.SPLIT, of=[who.OURS])
    return [*goals, _at_most("split, over scoring, in CPU time", 1, share)]


def of_growth(found: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """The goals that need many users: flat memory, and the whole day."""
    largest = max(found, key=lambda one: one["users"])
    peaks = [one["scoring"]["over_start_mb"] for one in found if one["users"] >= FLAT_FROM]  # bundles differ
    grown = max(peaks) - min(peaks) if peaks else 0.0
    day = largest["day"]["cpu_us"] / (largest["split"]["cpu_us"] + largest["scoring"]["cpu_us"])
    users = f"{largest['users']:,} users"
    return [
        Goal(
            what=f"memory of scoring, {FLAT_FROM:,} to {users} in one file",
            goal=f"grows by {FLAT_MB} MB or less",
            measured=f"{grown:.0f} MB",
            is_met=grown <= FLAT_MB,
        ),
        Goal(
            what=f"the day inside Dagster, over split + scoring, in CPU time, {users}",
            goal="2 or less",
            measured=f"{day:.2f}",
            is_met=day <= 2,
        ),
    ]


def of_gates(found: Mapping[str, Any]) -> list[Goal]:
    """What the checks of a day cost, beside its scoring."""
    share = found["all"] / found["scoring"]
    users = f", {found['users']:,} users" if "users" in found else ""
    return [
        Goal(
            what=f"gates, over scoring, in CPU time{users}",
            goal="0.5 or less",
            measured=f"{share:.2f}",
            is_met=share <= 0.5,
        )
    ]


def of_incremental(found: Mapping[str, Any]) -> list[Goal]:
    """What a day costs of which a share of the users changed, beside the same day in full."""
    worlds = [(one, Results.from_json(one)) for one in found["networks"]]
    first, shares = found["networks"][0], [results.cpu_share(INCREMENTAL, of=[IN_FULL]) for _, results in worlds]
    padding = first["shards"] * first["batch_rows"] / first["users"]
    share = first["forwards"] * first["batch_rows"] / first["users"]
    what = f"an incremental day with {first['changed']:.1%} changed users"
    return [
        Goal(
            what=f"{what}: rows of its forwards, over all users",
            goal=f"the changed share and padding, {first['changed'] + padding:.1%}",
            measured=f"{share:.1%}",
            is_met=share <= first["changed"] + padding,
        ),
        *(
            Goal(
                what=f"{what}: CPU time over full, a forward of {one['forward_us']:.1f} us a user",
                goal=f"{limit:g} or less",
                measured=str(measured),
                is_met=measured.median <= limit,
            )
            for (one, _), measured, limit in zip(worlds, shares, (0.7, 0.15), strict=False)
        ),
    ]


def of_resume(found: Mapping[str, Any]) -> list[Goal]:
    """What a run does after one that died before its last shard."""
    return [
        Goal(
            what=f"resume after dying at the last of {found['shards']} shards",
            goal="1 shard scored again",
            measured=f"{found['scored']} scored, {found['kept']} kept",
            is_met=found["scored"] == 1,
        )
    ]


def of_backfill(found: Mapping[str, Any]) -> list[Goal]:
    """How often many days in one process load the network."""
    return [
        Goal(
            what=f"backfill of {found['days']} days in one process",
            goal="network loaded once",
            measured=f"{found['loads']} time(s)",
            is_met=found["loads"] == 1,
        )
    ]


def _at_least(what: str, limit: float, results: Results, name: str, over: Sequence[str]) -> Goal:
    """Judged by the clock; CPU time stands beside, because it bends less where others use the machine too."""
    goal = f"{limit:g} or more"
    if not all(one in results.runs for one in (name, *over)):
        return Goal(what=what, goal=goal, measured="not run", is_met=None)
    speed, cpu = results.speed(name, over=over), results.cpu_saving(name, over=over)
    return Goal(what=what, goal=goal, measured=f"{speed}; in CPU time {cpu}", is_met=speed.median >= limit)


def _at_most(what: str, limit: float, measured: Spread) -> Goal:
    return Goal(what=what, goal=f"{limit:g} or less", measured=str(measured), is_met=measured.median <= limit)
