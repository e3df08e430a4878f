"""benchmarks/RESULTS.md, written from the JSON that the measurements saved: nothing in it is typed by hand.

What was not measured says so.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contestants as who
from benchmarks import goals
from benchmarks.goals import Goal
from benchmarks.rounds import Results

TARGET = Path(__file__).with_name("RESULTS.md")
LOOKUPS_AT_ONCE = 100
LOOKUP_COLUMNS = (
    "",
    "loaded, thousand/s",
    "CPU us/user",
    "compared, us/user",
    "bytes/user",
    "one, us",
    f"{LOOKUPS_AT_ONCE} at once, us",
)
INCREMENTAL_COLUMNS = (
    "forward, us a user",
    "users",
    "changed",
    "in full",
    "incrementally",
    "over full",
    "rows of forwards",
)
_NO_PART = ("machine", "load", "users", "all", "scoring")
_PARTS = ("scoring", "split", "day")


def write(root: Path, target: Path = TARGET) -> None:
    """The whole page, from the results that lie under `root`."""
    target.write_text("\n".join(_page(root)) + "\n", encoding="utf-8")


def _page(root: Path) -> Iterator[str]:
    names = ("scoring", "day", "resume", "backfill", "growth", "gates", "incremental", "online")
    saved = {name: value for name in names if (value := _saved(root, name)) is not None}
    yield from _HEAD
    for machine in {json.dumps(value["machine"], sort_keys=True) for value in saved.values()}:
        yield _machine(json.loads(machine))
    yield from _load(saved)
    yield from _goals(saved)
    for name, section in _sections().items():
        if name in saved:
            yield from section(saved[name])
    yield from _gpu(root)


def _sections() -> dict[str, Callable[[Any], Iterator[str]]]:
    """What is written of each measurement, in the order of the page."""
    return {
        "scoring": _scoring,
        "day": _day,
        "growth": lambda saved: _growth(saved["growth"]),
        "backfill": _backfill,
        "gates": _gates,
        "incremental": _incremental,
        "online": _online,
    }


def _saved(root: Path, name: str) -> Any:
    path = root / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _machine(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    return f"\nMachine: {machine['cores']} cores ({machine['processor']}), Python {machine['python']}, {packages}."


def _load(saved: dict[str, Any]) -> Iterator[str]:
    """How many processes wanted a core, on average over five minutes, when each measurement ended."""
    loads = {name: value["load"] for name, value in saved.items() if "load" in value}
    if loads:
        told = ", ".join(f"{name} {load:.1f}" for name, load in loads.items())
        yield (
            f"\nLoad average at the end of each measurement: {told}. Where that is above the number of cores, others "
            "used the machine: clocks then say little, and CPU time is dearer than on a quiet one."
        )


def _goals(saved: dict[str, Any]) -> Iterator[str]:
    rows: list[Goal] = []
    if "scoring" in saved:
        rows += goals.of_scoring(Results.from_json(saved["scoring"]))
    if "growth" in saved:
        rows += goals.of_growth(saved["growth"]["growth"])
    if "resume" in saved:
        rows += goals.of_resume(saved["resume"])
    if "backfill" in saved:
        rows += goals.of_backfill(saved["backfill"])
    if "gates" in saved:
        rows += goals.of_gates(saved["gates"])
    if "incremental" in saved:
        rows += goals.of_incremental(saved["incremental"])
    yield "\n## The goals\n"
    yield from _table(("", "goal", "measured", ""), [(row.what, row.goal, row.measured, row.verdict) for row in rows])


def _scoring(saved: dict[str, Any]) -> Iterator[str]:
    results = Results.from_json(saved)
    rounds = len(next(iter(results.runs.values())))
    yield f"\n## Scoring {results.users:,} users, {rounds} rounds\n"
    rows = [
        (
            name,
            str(results.speed(name, over=[who.PANDAS])),
            str(results.cpu_us(name)),
            f"{results.start_cpu_s(name):.1f}",
            f"{results.peak_mb(name):,.0f}",
        )
        for name in results.runs
    ]
    columns = ("", "times the usual code, by the clock", "CPU us per user", "CPU s before the clock", "peak MB")
    yield from _table(columns, rows)
    worst = max(saved["apart"].values(), default=0.0)
    yield f"\nAll scorers gave every user the same score, at most {worst:.1g} apart."
    if results.not_run:
        yield f"Not run, for want of the package: {', '.join(results.not_run)}."
    yield from _profile(results)


def _profile(results: Results) -> Iterator[str]:
    """Where the scorer's time goes: its parts, each alone on one core, against the whole."""
    yield "\n### Where the time goes: CPU us per user of each part alone\n"
    parts = {part: results.cpu_us(name).median for part, name in who.LIMITS.items()}
    scoring = sum(parts[part] for part in ("read", "encode", "forward", "write"))
    yield from _table(tuple(parts), [tuple(f"{value:.2f}" for value in parts.values())])
    whole, ceiling = results.cpu_us(who.OURS).median, parts["forward"] / scoring
    usual = results.cpu_saving(who.FORWARD, over=[who.PANDAS])
    yield (
        f"\nThe usual code takes {usual} times the CPU time of forward only: on one core, nothing that runs this "
        f"network gains more. Read, encode, forward and write add up to {scoring:.2f}; the scorer, its checks "
        f"included, takes {whole:.2f}. On one core alone nothing could thus exceed {ceiling:.2f} of forward only; with "
        f"a second core, reading and writing overlap it."
    )


def _day(saved: dict[str, Any]) -> Iterator[str]:
    results = Results.from_json(saved)
    yield f"\n## The day inside Dagster, {results.users:,} users\n"
    rows = [
        (name, str(results.cpu_us(name)), f"{results.start_cpu_s(name):.1f}", f"{results.peak_mb(name):,.0f}")
        for name in results.runs
    ]
    yield from _table(("", "CPU us per user", "CPU s before the clock (imports)", "peak MB"), rows)
    name = next(name for name in results.runs if "day" in name)
    steps = results.runs[name][-1].facts["steps"]
    whole = sum(steps.values())
    told = ", ".join(f"{step.split('__')[-1]} {seconds / whole:.0%}" for step, seconds in steps.items())
    yield f"\nShares of the day's time, by asset, its gates included: {told}."


def _growth(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "\n## Growth: CPU us per user, and MB above what the process held before the clock\n"
    rows = [
        (
            f"{one['users']:,}",
            *(f"{one[part]['cpu_us']:.2f}; {one[part]['over_start_mb']:,.0f} MB" for part in _PARTS),
        )
        for one in found
    ]
    yield from _table(("users", "scoring, one file", "split", "the day inside Dagster"), rows)


def _backfill(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"\n## Backfill\n\n{found['days']} days of {found['users']:,} users in one process: the network was loaded "
        f"{found['loads']} time(s); {found['cpu_us']:.1f} CPU us per user and day; peak {found['peak_mb']:,.0f} MB."
    )


def _gates(found: dict[str, Any]) -> Iterator[str]:
    users = f"{found['users']:,} users, " if "users" in found else ""
    yield f"\n## The gates: {users}CPU us per user\n"
    parts = {part: cost for part, cost in found.items() if part not in _NO_PART}
    rows = [*parts.items(), ("all gates", found["all"]), ("scoring", found["scoring"])]
    yield from _table(("", "CPU us per user"), [(part, f"{cost:.3f}") for part, cost in rows])
    yield f"\nThe gates over scoring, in CPU time: {found['all'] / found['scoring']:.2f} (goal: 0.5 or less)."


def _incremental(found: dict[str, Any]) -> Iterator[str]:
    yield "\n## A day of which a share of the users changed: CPU us per user\n"
    yield from _table(INCREMENTAL_COLUMNS, incremental_rows(found))


def incremental_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each network that both ways were measured with."""
    rows = []
    for one in found["networks"]:
        results = Results.from_json(one)
        costs = [str(results.cpu_us(name)) for name in (goals.IN_FULL, goals.INCREMENTAL)]
        over = str(results.cpu_share(goals.INCREMENTAL, of=[goals.IN_FULL]))
        scored = f"{one['forwards'] * one['batch_rows'] / one['users']:.1%}"
        rows.append((f"{one['forward_us']:.2f}", f"{one['users']:,}", f"{one['changed']:.1%}", *costs, over, scored))
    return rows


def _online(found: dict[str, Any]) -> Iterator[str]:
    yield f"\n## Lookups, {found['users']:,} users: medians over the rounds; lookups as p50 / p99\n"
    yield from _table(LOOKUP_COLUMNS, lookup_rows(found["stores"], found["users"]))


def lookup_rows(stores: Mapping[str, Mapping[str, Sequence[float]]], users: int) -> list[tuple[str, ...]]:
    """A row of LOOKUP_COLUMNS for each store, from its measured values; medians over rounds, percentiles over calls."""
    return [
        (
            name,
            f"{users / statistics.median(one['load_s']) / 1000:,.0f}",
            f"{statistics.median(one['load_cpu_s']) / users * 1e6:.2f}",
            f"{statistics.median(one['compare_s']) / users * 1e6:.2f}" if one["compare_s"] else "-",
            f"{statistics.median(one['size_bytes']) / users:.0f}",
            *(f"{np.percentile(one[us], 50):.0f} / {np.percentile(one[us], 99):.0f}" for us in ("one_us", "many_us")),
        )
        for name, one in stores.items()
    ]


def _gpu(root: Path) -> Iterator[str]:
    path = root / "gpu.md"
    yield "\n## One GPU\n"
    if path.exists():
        yield path.read_text(encoding="utf-8").strip()
    else:
        yield "Not measured: no CUDA device was at hand. `make bench-gpu` does it where there is one."


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


_HEAD = (
    "# Results",
    "",
    "Written by `python -m benchmarks report` from what `make bench` saved; run it yourself. Ratios are taken within a",
    "round, between processes that ran one after another on the same data, and stand as median (least to greatest).",
    "CPU time is that of the whole process tree between two marks; imports, and the start of a cluster or of worker",
    "processes, lie before the first mark and are told apart.",
)
