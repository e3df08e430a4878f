"""The parent's side of a measurement: one contestant as a fresh process, its CPU time and memory taken from outside.

CPU time and memory are those of the whole process tree, so that a Ray or Spark cluster is counted as one. Memory is
the proportional set size (shared pages counted once), looked at five times a second; CPU time is exact to 10 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from benchmarks.child import MARK

REPOSITORY = Path(__file__).resolve().parent.parent
_SAMPLE_S = 0.2
_PATIENCE_S = 3600
_ENVIRONMENT = {
    "PYTHONPATH": str(REPOSITORY),
    "PYTHONDONTWRITEBYTECODE": "",  # worker processes of peers must not compile their imports anew
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYSPARK_PYTHON": sys.executable,
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run. Seconds and CPU between the marks; what came before them (imports, a cluster's start) apart."""

    seconds: float
    cpu_s: float
    start_s: float
    start_cpu_s: float
    peak_mb: float
    start_mb: float
    facts: dict[str, Any]


class ContestantError(Exception):
    """A contestant ended early; the message holds the end of what it wrote."""


@dataclass(frozen=True, kw_only=True)
class _Look:
    at: float
    cpu_s: float
    memory_mb: float


def run(module: str, job: dict[str, Any], *, scratch: Path, cores: int | None = None) -> Measured:
    """Run `python -m module job.json` to its end. `cores` pins the tree to that many cores."""
    scratch.mkdir(parents=True, exist_ok=True)
    job_file, log_file = scratch / "job.json", scratch / "log.txt"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    began = time.perf_counter()
    command = [*_pinned(cores), sys.executable, "-m", module, str(job_file)]
    with log_file.open("w", encoding="utf-8") as log, _started(command, log) as process:
        looks, facts, peak = _follow(process)
    if process.returncode or set(looks) != {"start", "end"}:
        raise ContestantError(f"{module} ended with status {process.returncode}: {_tail(log_file)}")
    return Measured(
        seconds=facts.pop("seconds"),
        cpu_s=looks["end"].cpu_s - looks["start"].cpu_s,
        start_s=looks["start"].at - began,
        start_cpu_s=looks["start"].cpu_s,
        peak_mb=peak,
        start_mb=looks["start"].memory_mb,
        facts=facts,
    )


def _pinned(cores: int | None) -> list[str]:
    return (
        [] if cores is None else ["taskset", "--cpu-list", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))]
    )


@contextlib.contextmanager
def _started(command: list[str], log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """The process; nothing that it started outlives the block."""
    environment = {**os.environ, **_ENVIRONMENT}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdin=pipe, stdout=pipe, stderr=log, text=True
    ) as process:
        try:
            yield process
            process.wait(timeout=_PATIENCE_S)
        finally:
            for one in _tree(process.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()


def _follow(process: subprocess.Popen[str]) -> tuple[dict[str, _Look], dict[str, Any], float]:
    """Answer each mark with a look at the tree; between the marks a thread watches the memory."""
    looks: dict[str, _Look] = {}
    facts: dict[str, Any] = {}
    watch = _MemoryWatch(process.pid)
    for said in _marks(process.stdout):
        name = said.pop("mark")
        if name == "end":
            watch.stop()
        looks[name] = _look(process.pid)
        facts = said
        if name == "start":
            watch.start()
        _answer(process.stdin)
    watch.stop()
    return looks, facts, watch.peak_mb


def _marks(stdout: IO[str] | None) -> Iterator[dict[str, Any]]:
    assert stdout is not None
    for line in stdout:
        if line.startswith(MARK):
            yield json.loads(line.removeprefix(MARK))


def _answer(stdin: IO[str] | None) -> None:
    assert stdin is not None
    stdin.write("\n")
    stdin.flush()


class _MemoryWatch(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self._pid = pid
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(_SAMPLE_S):
            self._sample()

    def stop(self) -> None:
        if not self._is_over.is_set() and self.is_alive():
            self._is_over.set()
            self.join()
            self._sample()

    def _sample(self) -> None:
        self.peak_mb = max(self.peak_mb, _memory_mb(_tree(self._pid)))


def _look(pid: int) -> _Look:
    tree = _tree(pid)
    return _Look(at=time.perf_counter(), cpu_s=_cpu_s(tree), memory_mb=_memory_mb(tree))


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _cpu_s(tree: list[psutil.Process]) -> float:
    """User and system time of the living, and of the dead whom they have waited for."""
    total = 0.0
    for one in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _memory_mb(tree: list[psutil.Process]) -> float:
    return sum(_pss_kb(one.pid) for one in tree) / 1024


def _pss_kb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except (OSError, ValueError):
        return 0  # it ended in this moment
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def _tail(log_file: Path) -> str:
    return log_file.read_text(encoding="utf-8", errors="replace")[-3000:]
