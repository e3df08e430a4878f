"""`python -m benchmarks ...`: one command a measurement; `all` runs them one after another.

Data and results lie under `--root` (default data/bench). Nothing here is quoted but ratios within a round and CPU
time per user; run it on a machine that has nothing else to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import runs
from benchmarks.contestants import OURS, SPLIT
from benchmarks.goals import of_backfill, of_growth, of_incremental, of_resume
from benchmarks.report import INCREMENTAL_COLUMNS, TARGET, incremental_rows, write
from benchmarks.rounds import Results
from benchmarks.table import console, save, show, show_goals, show_scoring

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure this package beside what others use.")

Root = Annotated[Path, typer.Option(help="Where data and results lie.")]
Users = Annotated[int, typer.Option(min=10_000)]
Rounds = Annotated[int, typer.Option(min=1)]
ShardCount = Annotated[int, typer.Option(min=1)]
DEFAULT_ROOT = Path("data/bench")


@app.command()
def scoring(root: Root = DEFAULT_ROOT, users: Users = 2_000_000, rounds: Rounds = 3, shards: ShardCount = 16) -> None:
    """Our scorer, pandas, Ray Data, Spark and the limits, in alternating rounds over the same shards."""
    results, apart = runs.scoring(root.absolute(), users=users, rounds=rounds, shards=shards)
    show_scoring(results)
    worst = max(apart.values(), default=0.0)
    console.print(f"{len(apart) + 1} contestants gave the same scores, at most {worst:.1g} apart")
    save(root / "scoring.json", {**results.to_json(), "apart": apart})


@app.command()
def day(root: Root = DEFAULT_ROOT, users: Users = 2_000_000, rounds: Rounds = 3, shards: ShardCount = 16) -> None:
    """The whole day inside Dagster, beside split and scoring alone."""
    results = runs.day(root.absolute(), users=users, rounds=rounds, shards=shards)
    _show_day(results)
    save(root / "day.json", results.to_json())


@app.command()
def resume(root: Root = DEFAULT_ROOT, users: Users = 2_000_000, shards: ShardCount = 16) -> None:
    """Kill the scoring of a day before its last shard; how much is done again."""
    found = runs.resume(root.absolute(), users=users, shards=shards)
    show_goals(of_resume(found))
    save(root / "resume.json", found)


@app.command()
def backfill(
    root: Root = DEFAULT_ROOT,
    users: Users = 100_000,
    days: Annotated[int, typer.Option(min=1)] = 30,
    shards: ShardCount = 16,
) -> None:
    """Many days in one process."""
    found = runs.backfill(root.absolute(), users=users, num_days=days, shards=shards)
    show_goals(of_backfill(found))
    save(root / "backfill.json", found)


@app.command()
def gates(root: Root = DEFAULT_ROOT, users: Users = 2_000_000, shards: ShardCount = 16) -> None:
    """The checks of a day, beside the day's scoring."""
    found = runs.gates(root.absolute(), users=users, shards=shards)
    scoring_us = found.pop(runs.SCORING_PART)
    rows = [(part, f"{cpu_us:.3f}") for part, cpu_us in found.items()]
    total = sum(found.values())
    show(
        f"{users:,} users, CPU us per user",
        ("", "CPU us/user"),
        [*rows, ("all gates", f"{total:.3f}"), ("scoring", f"{scoring_us:.3f}")],
    )
    console.print(f"the gates over scoring, in CPU time: {total / scoring_us:.2f} (goal: 0.5 or less)")
    save(root / "gates.json", {**found, "users": users, "all": total, "scoring": scoring_us})


@app.command()
def incremental(
    root: Root = DEFAULT_ROOT, users: Users = 2_000_000, rounds: Rounds = 3, shards: ShardCount = 16
) -> None:
    """A day of which 5 % of the users changed, beside the same day in full."""
    found = runs.incremental(root.absolute(), users=users, rounds=rounds, shards=shards)
    show("CPU us per user; median (least to greatest)", INCREMENTAL_COLUMNS, incremental_rows(found))
    show_goals(of_incremental(found))
    save(root / "incremental.json", found)


@app.command()
def growth(
    root: Root = DEFAULT_ROOT,
    sizes: Annotated[str, typer.Option(help="Users, separated by commas.")] = "10000,125000,1000000,10000000",
    shards: ShardCount = 16,
) -> None:
    """Scoring in one file, the split and the day, as the users grow."""
    found = runs.growth(root.absolute(), sizes=[int(size) for size in sizes.split(",")], shards=shards)
    parts = ("scoring", "split", "day")
    rows = [
        (f"{one['users']:,}", *(f"{one[part]['cpu_us']:.2f} / {one[part]['over_start_mb']:,.0f}" for part in parts))
        for one in found
    ]
    show("CPU us per user / MB above the start", ("users", *parts), rows)
    show_goals(of_growth(found))
    save(root / "growth.json", {"growth": found})


@app.command(name="all")
def everything(
    root: Root = DEFAULT_ROOT, users: Users = 2_000_000, rounds: Rounds = 3, shards: ShardCount = 16
) -> None:
    """Everything, one after another."""
    scoring(root, users, rounds, shards)
    day(root, users, rounds, shards)
    gates(root, 10_000_000, shards)
    resume(root, users, shards)
    backfill(root, min(users, 100_000), 30, shards)
    incremental(root, users, rounds, shards)
    growth(root, "10000,125000,1000000,10000000", shards)
    report(root)


@app.command(name="report")
def report(root: Root = DEFAULT_ROOT) -> None:
    """Write benchmarks/RESULTS.md from what was saved."""
    write(root)
    console.print(f"written: {TARGET}")


def _show_day(results: Results) -> None:
    rows = [(name, results.cpu_us(name), f"{results.start_cpu_s(name):.1f}") for name in results.runs]
    show(f"{results.users:,} users; median (least to greatest)", ("", "CPU us/user", "CPU s before"), rows)
    share = results.cpu_share(runs.OUR_DAY, of=[SPLIT, OURS])
    console.print(f"the day over split + scoring alone, in CPU time: {share} (goal: 2 or less)")


if __name__ == "__main__":
    app()
