"""The contestant's side of a measurement: its job comes in as a file, its marks go out as lines.

At a mark the contestant prints one line of JSON and waits until the parent has looked at the clock, the CPU time and
the memory of the whole process tree. What lies between the marks "start" and "end" is what is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "@mark "


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a contestant is to do: score `files` (Parquet) with `bundle`, into `out`, by its own `options`."""

    files: tuple[Path, ...]
    bundle: Path
    out: Path
    options: dict[str, Any] = field(default_factory=dict)

    def target(self, source: Path) -> Path:
        """Where the scores of one input file belong."""
        return self.out / source.name


def read_job() -> Job:
    """The job that the parent named on the command line."""
    value = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    return Job(
        files=tuple(map(Path, value["files"])),
        bundle=Path(value["bundle"]),
        out=Path(value["out"]),
        options=value["options"],
    )


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Mark the block's start and end. What is put into the dict goes out with the end."""
    facts: dict[str, Any] = {}
    _mark("start", {})
    began = time.perf_counter()
    yield facts
    _mark("end", {"seconds": time.perf_counter() - began, **facts})


def _mark(name: str, facts: dict[str, Any]) -> None:
    print(MARK + json.dumps({"mark": name, **facts}), flush=True)
    sys.stdin.readline()
