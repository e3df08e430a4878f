"""Results as tables for people, and as JSON with the machine they are from."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import contestants as who
from benchmarks.rounds import Results, Spread

console = Console(highlight=False)
_PACKAGES = ("torch", "pyarrow", "numpy", "pandas", "dagster", "ray", "pyspark")


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One table; all columns but the first to the right."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def show_scoring(results: Results) -> None:
    """Every contestant beside the usual code, and the goals."""
    rows = []
    for name in results.runs:
        ratio = results.speed(name, over=[who.PANDAS])
        apart = f"{results.start_cpu_s(name):.1f}"
        rows.append((name, ratio, results.cpu_us(name), apart, f"{results.peak_mb(name):,.0f}"))
    columns = ("", "times the usual code", "CPU us/user", "CPU s before", "peak MB")
    show(f"{results.users:,} users; median (least to greatest)", columns, rows)
    for name, missing in results.not_run.items():
        console.print(f"not run: {name}, for want of {', '.join(missing)}")
    show("the goals", ("", "goal", "measured"), goals(results))


def goals(results: Results) -> list[tuple[str, str, Spread | str]]:
    """The goals that one run of `scoring` can judge."""
    rows: list[tuple[str, str, Spread | str]] = [
        ("one process, over the usual code", "20 or more", results.speed(who.OURS, over=[who.PANDAS])),
        ("one process, over forward only", "0.7 or more", results.speed(who.OURS, over=[who.FORWARD])),
        ("the same on one core", "0.7 or more", results.speed(who.OURS_ONE_CORE, over=[who.FORWARD])),
    ]
    for name, peers in (("Ray Data", who.RAY), ("Spark", who.SPARK)):
        has_run = all(peer in results.runs for peer in peers)
        measured = results.speed(who.OURS_ALL, over=peers) if has_run else "not run"
        rows.append((f"all cores, over {name} at its best", "10 or more", measured))
    share = results.cpu_share(who.SPLIT, of=[who.OURS])
    rows.append(("CPU of the split, over that of scoring", "1 or less", share))
    return rows


def save(path: Path, what: Mapping[str, Any]) -> None:
    """Write results beside the machine they are from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": _machine(), **what}, indent=1), encoding="utf-8")
    console.print(f"saved: {path}")


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
