"""A day that is killed anywhere and run again ends the same, and nobody ever saw half of it.

A small day that replaces a published one is killed by SIGKILL before each write, fsync, rename and removal, half way
through each write, between all stages, and at random moments, while a reader loops over the table and the lookups. Each
death starts from a copy of the same state; the rerun must end as if there had been none, whatever is made of what the
dead left behind.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from profile_assets.storage.layout import RAW_USERS, STAGES

MOMENTS, THROUGH_DAGSTER = 20, 10
Death: TypeAlias = tuple[str, dict[str, Any]]


@dataclass
class Reader:
    """Loops over the table and the lookups; each look must see all of the old day or all of the new one."""

    small: Any
    root: Path
    old: Any
    new: Any
    seen: dict[str, list[str]] = field(default_factory=lambda: {"table": [], "lookups": []})

    def look(self) -> None:
        for place, found, wanted in (
            ("table", self.small.rows(self.root), {"old": self.old.rows, "new": self.new.rows}),
            ("lookups", self.small.looked_up(self.root), {"old": self.old.online, "new": self.new.online}),
        ):
            names = [name for name, one in wanted.items() if found == one]
            assert len(names) == 1, f"{place}: half of a day was seen"
            if self.seen[place][-1:] != names:
                self.seen[place] += names
            assert self.seen[place] in (["old"], ["new"], ["old", "new"])


@contextlib.contextmanager
def looking(readers: list[Reader]) -> Iterator[None]:
    """Let them look, one after another without an end, and once more when it is over."""
    is_over, failed = threading.Event(), list[BaseException]()

    def loop() -> None:
        try:
            while not is_over.wait(0.01):  # the days that are to die need the processor, too
                for reader in readers:
                    reader.look()
        except BaseException as error:  # noqa: BLE001  told by the thread that waits for this one
            failed.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert not failed, failed
    for reader in readers:
        reader.look()


def side_by_side(deaths: Iterator[Death], count: int = 2) -> Iterator[list[Death]]:
    while some := list(itertools.islice(deaths, count)):
        yield some


def spoil(paths: list[Path]) -> None:
    """Leave the first half of each."""
    for path in paths:
        os.truncate(path, path.stat().st_size // 2)


def deaths(dry: dict[str, Any], job: dict[str, Any]) -> Iterator[Death]:
    """Where days are to die: kind and request. `dry` and `job` are days that did not, without and with Dagster."""
    yield from (("named", {"step": number}) for number in range(1, len(dry["steps"]) + 1))
    draw = random.Random(6)
    yield from (("random", {"after_s": draw.uniform(0.0, 0.9 * dry["seconds"])}) for _ in range(MOMENTS))
    apart = len(job["steps"]) / THROUGH_DAGSTER
    yield from (("dagster", {"step": int(apart * n) + 1, "through": "dagster"}) for n in range(THROUGH_DAGSTER))
    yield from (("workers", {"step": name, "workers": 2}) for name in ("start a worker", "a shard"))


@pytest.mark.timeout(900)
def test_a_day_killed_anywhere_ends_the_same_when_run_again_and_nobody_sees_half_of_it(
    small: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, old = time.monotonic(), small.state(small.start)
    reference, job_root = small.copy(tmp_path / "reference"), small.copy(tmp_path / "job")
    dry, job = small.run(reference), small.run(job_root, through="dagster")
    new = small.state(reference)
    assert (dry["status"], job["status"], small.state(job_root)) == (0, 0, new)
    assert not new.rows.equals(old.rows)
    points, told = Counter[tuple[str, str]](), list[str]()
    for some in side_by_side(deaths(dry, job)):
        roots = [small.copy(tmp_path / f"day-{place}") for place in range(len(some))]
        readers = [Reader(small, root, old, new) for root in roots]
        with looking(readers):
            died = small.run_all([(root, request) for root, (_, request) in zip(roots, some, strict=True)])
        seen = [{place: names[-1] for place, names in reader.seen.items()} for reader in readers]
        left = [small.leftovers(root) for root in roots]
        spoil(left[0])
        with looking(readers):
            again = small.run_all([(root, {}) for root in roots])
        for place, (kind, _) in enumerate(some):
            assert died[place]["status"] == -signal.SIGKILL or (kind, died[place]["status"]) == ("random", 0)
            assert (died[place]["orphans"], again[place]["orphans"], again[place]["status"]) == (0, 0, 0)
            small.require_whole(roots[place], new)
            stage, what = died[place]["steps"][-1] if died[place]["steps"] else (RAW_USERS, "before the first step")
            points[kind, stage] += died[place]["status"] != 0
            told.append(
                f"{kind:8}{len(died[place]['steps']):4} {stage:20} {what:78} table {seen[place]['table']}, lookups "
                f"{seen[place]['lookups']}, {len(left[place])} left behind; rerun: the same"
            )
            shutil.rmtree(roots[place])
    with capsys.disabled():
        print("\n" + "\n".join(told))
        print(f"{points.total()} deaths in {time.monotonic() - began:.0f} s: {dict(points)}")
    assert points.total() >= 200
    assert all(points["named", stage] >= 30 for stage in STAGES)
    assert sum(points["dagster", stage] for stage in STAGES) == THROUGH_DAGSTER
