"""The measurements, each from its data to its results: scoring, the day, resume, a backfill, growth."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import agreement, contestants
from benchmarks.changed import LARGE_NETWORK, prepare_changed
from benchmarks.data import World, other_root, prepare, with_lookups
from benchmarks.goals import IN_FULL, INCREMENTAL
from benchmarks.process import ContestantError, Measured, run
from benchmarks.rounds import Contestant, Results, play
from benchmarks.table import console
from profile_assets.models.settings import NetworkSettings
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS

WARM_USERS = 2_000
LARGE_NETWORK_USERS, LARGE_NETWORK_SHARDS = 250_000, 2  # a shard of as many users as two million in sixteen
EVERYBODY = (*contestants.SCORERS, *contestants.PARTS)
OUR_DAY = "ours: the day inside Dagster"
OUR_DAY_ONLINE = "ours: the same, lookups in SQLite as well"
SCORING_PART = "scoring"


def scoring(
    root: Path, *, users: int, rounds: int, shards: int, who: Sequence[Contestant] = EVERYBODY
) -> tuple[Results, dict[str, float]]:
    """All over the same shards, and the split; and how far each one's scores are from the first one's."""
    world = prepare(root / "scoring", users=users, shards=shards)
    landed = other_root(world, root / "split", stages=[RAW_USERS])
    names = [*who, contestants.split(str(landed.root), shards)]
    results = play(names, users=users, rounds=rounds, run=lambda one, number: _run(world, one, number))
    compared = {one.name: _out(world, one) for one in names if one.gives_scores and not one.missing}
    return results, agreement.check(compared)


def day(root: Path, *, users: int, rounds: int, shards: int) -> Results:
    """The day inside Dagster, beside split and scoring alone."""
    world, warm = prepare(root / "scoring", users=users, shards=shards), _warm(root)
    landed = other_root(world, root / "split", stages=[RAW_USERS])
    scorer = next(one for one in contestants.SCORERS if one.name == contestants.OURS)

    def run_one(one: Contestant, number: int) -> Measured:
        if one.name in (OUR_DAY, OUR_DAY_ONLINE):
            day = _renew(root, world, warm)
            if one.name == OUR_DAY_ONLINE:
                with_lookups(day)
        return _run(world, one, number)

    days = [_days(name, root, days=1) for name in (OUR_DAY, OUR_DAY_ONLINE)]
    names = [scorer, contestants.split(str(landed.root), shards), *days]
    return play(names, users=users, rounds=rounds, run=run_one)


def resume(root: Path, *, users: int, shards: int) -> dict[str, Any]:
    """Die when the last shard is all that is missing, and run again; shards scored and kept by the second run."""
    world = prepare(root / "scoring", users=users, shards=shards)
    split = other_root(world, root / "resume", stages=[RAW_USERS, USER_SHARDS])

    def attempt(die_after: int) -> Measured:
        options = {"root": str(split.root), "die_after": die_after}
        return _run(world, Contestant(name="resume", module="benchmarks.resume", options=options), 0)

    with contextlib.suppress(ContestantError):
        attempt(die_after=shards - 1)
        raise AssertionError("the first run was to die")
    return {"shards": shards, **attempt(die_after=0).facts}


def backfill(root: Path, *, users: int, num_days: int, shards: int) -> dict[str, Any]:
    """Many days in one process: how often the network was loaded, and CPU per user and day."""
    world, warm = prepare(root / "backfill", users=users, shards=shards, num_days=num_days), _warm(root)
    _renew(root, world, warm)
    taken = _run(world, _days("backfill", root, days=num_days), 0)
    cpu_us = taken.cpu_s / users / num_days * 1e6
    return {"days": num_days, "users": users, "loads": taken.facts["loads"], "cpu_us": cpu_us, "peak_mb": taken.peak_mb}


def gates(root: Path, *, users: int, shards: int) -> dict[str, float]:
    """CPU microseconds per user of each gate of a day, and of the day's scoring without them."""
    world, warm = prepare(root / "gates", users=users, shards=shards, num_days=2), _warm(root)
    other_root(world, root / "judged")
    fresh = other_root(warm, root / "judged_warm")
    options = {"root": str(root / "judged"), "warm": str(fresh.root), "shards": shards}
    taken = _run(world, Contestant(name="gates", module="benchmarks.gates", options=options, gives_scores=False), 0)
    shutil.rmtree(root / "judged")
    costs = {part: seconds / users * 1e6 for part, seconds in taken.facts["costs"].items()}
    return {**costs, SCORING_PART: costs[SCORING_PART] - costs["histograms, in scoring"]}


def incremental(root: Path, *, users: int, rounds: int, shards: int) -> dict[str, Any]:
    """A day of which 5 % of the users changed, in full and incrementally, with a small network and with a large one."""
    few, fewer = min(users, LARGE_NETWORK_USERS), min(shards, LARGE_NETWORK_SHARDS)
    sizes = ((None, users, shards), (LARGE_NETWORK, few, fewer))
    return {"networks": [_both_ways(root, one, size, rounds=rounds, shards=count) for one, size, count in sizes]}


def _both_ways(root: Path, network: NetworkSettings | None, users: int, *, rounds: int, shards: int) -> dict[str, Any]:
    world = prepare_changed(root / "changed", users=users, shards=shards, network=network)
    ways = [
        Contestant(name=name, module="benchmarks.incremental", options={"root": str(world.root), "mode": mode}, cores=1)
        for name, mode in ((IN_FULL, "full"), (INCREMENTAL, "incremental"))
    ]
    ways += [one for one in contestants.PARTS if one.name == contestants.FORWARD]
    results = play(ways, users=users, rounds=rounds, run=lambda one, number: _run(world, one, number))
    facts = results.runs[INCREMENTAL][-1].facts
    shutil.rmtree(root / "changed")
    measured = {"changed": 1 - facts["carried"] / users, "forward_us": results.cpu_us(contestants.FORWARD).median}
    return {**results.to_json(), **facts, "shards": shards, **measured}


def growth(root: Path, *, sizes: Sequence[int], shards: int) -> list[dict[str, Any]]:
    """Scoring (all users in one file), the split and the day, as the users grow; for each, CPU and memory."""
    warm = _warm(root)
    found = []
    for users in sizes:
        world = prepare(root / "growth", users=users, shards=shards)
        landed = other_root(world, root / "split", stages=[RAW_USERS])
        _renew(root, world, warm)
        runs = {
            "scoring": _run(world, Contestant(name="one", module="benchmarks.ours"), 0, files=[world.source_file]),
            "split": _run(world, contestants.split(str(landed.root), shards), 0),
            "day": _run(world, _days("day", root, days=1), 0),
        }
        found.append({"users": users, **{name: _grown(taken, users) for name, taken in runs.items()}})
        for folder in ("growth", "split", "day"):
            shutil.rmtree(root / folder)
    return found


def _grown(taken: Measured, users: int) -> dict[str, Any]:
    return {
        "cpu_us": taken.cpu_s / users * 1e6,
        "peak_mb": taken.peak_mb,
        "over_start_mb": taken.peak_mb - taken.start_mb,
        **taken.facts,
    }


def _warm(root: Path) -> World:
    """A small world, whose day is run before the clock so that nothing is imported while it runs."""
    return prepare(root / "warm", users=WARM_USERS, shards=2)


def _renew(root: Path, world: World, warm: World) -> World:
    """Two roots for `_days` in which nothing has been done; gives the one that is measured."""
    other_root(warm, root / "warm_day")
    return other_root(world, root / "day")


def _days(name: str, root: Path, *, days: int) -> Contestant:
    options = {"root": str(root / "day"), "warm": str(root / "warm_day"), "days": days}
    return Contestant(name=name, module="benchmarks.day", options=options, gives_scores=False)


def _out(world: World, one: Contestant) -> Path:
    return world.root / "out" / _slug(one.name)


def _run(world: World, one: Contestant, number: int, *, files: Sequence[Path] | None = None) -> Measured:
    out = _out(world, one)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    job = {
        "files": [str(path) for path in (world.shard_files if files is None else files)],
        "bundle": str(world.bundle),
        "out": str(out),
        "options": dict(one.options),
    }
    taken = run(one.module, job, scratch=world.root / "jobs" / _slug(one.name), cores=one.cores)
    console.print(
        f"round {number + 1}: {one.name}: {taken.seconds:.1f} s, {taken.cpu_s / world.users * 1e6:.2f} CPU us/user"
    )
    return taken


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
