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
from benchmarks.goals import Goal, of_scoring
from benchmarks.rounds import Results

console = Console(highlight=False, width=120)
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
    show_goals(of_scoring(results))


def show_goals(goals: Sequence[Goal]) -> None:
    """Goals beside what was measured."""
    show("the goals", ("", "goal", "measured", ""), [(one.what, one.goal, one.measured, one.verdict) for one in goals])


def save(path: Path, what: Mapping[str, Any]) -> None:
    """Write results beside the machine they are from, and how busy that was with other work too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": _machine(), "load": os.getloadavg()[1], **what}, indent=1), encoding="utf-8")
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
