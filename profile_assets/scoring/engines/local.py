"""The engine of one machine: long-lived processes, one a core or one a GPU, fed shards largest first.

A process that dies has its shard done again by another, a bounded number of times. What is small stays in the calling
process, which saves the start of others. However the day ends, no process outlives it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Self

import torch

from profile_assets.errors import ProfileAssetsError, StorageError
from profile_assets.scoring.devices import resolve
from profile_assets.scoring.engines.here import score_here
from profile_assets.scoring.engines.machine import usable_cores, usable_memory_bytes
from profile_assets.scoring.engines.worker import Answer, Worker
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardResult, ShardTask

SMALL_DAY_ROWS = 1_000_000  # scored here in about a second; a process takes 2 to 4 s of processor time to start
WORKER_BYTES = 1024**3  # torch and Arrow, a model of ordinary size, and the blocks in flight
MAX_ATTEMPTS = 3


def score_on_this_machine(tasks: Sequence[ShardTask]) -> Generator[ShardResult, None, None]:
    """Score the shards in processes where these pay for their start, else in this one."""
    if not tasks:
        return
    settings, rows = tasks[0].settings, sum(task.keys.count for task in tasks)
    count = num_workers(settings, num_tasks=len(tasks), rows=rows, places=_places(settings))
    yield from score_here(tasks) if count == 1 else score_in_processes(tasks, count=count)


def num_workers(settings: ScoringSettings, *, num_tasks: int, rows: int, places: int) -> int:
    """How many processes score: as many as were asked for, or one for each place there is; never idle ones."""
    if settings.workers is None and rows < SMALL_DAY_ROWS:
        return 1
    return max(1, min(settings.workers or places, num_tasks))


def _places(settings: ScoringSettings) -> int:
    """GPUs, or cores as far as memory reaches."""
    if gpus := _gpus(settings):
        return gpus
    cores, memory = usable_cores() // settings.threads, usable_memory_bytes()
    return cores if memory is None else min(cores, memory // WORKER_BYTES)


def _gpus(settings: ScoringSettings) -> int:
    return int(torch.cuda.device_count()) if resolve(settings.device) == "cuda" else 0


def score_in_processes(tasks: Sequence[ShardTask], *, count: int) -> Generator[ShardResult, None, None]:
    """Score the shards in up to `count` processes; errors as `Workers.score` has them."""
    with Workers(min(count, len(tasks)), gpus=_gpus(tasks[0].settings)) as workers:
        yield from workers.score(tasks)


def _require_hope(task: ShardTask, deaths: int) -> None:
    if deaths >= MAX_ATTEMPTS:
        raise StorageError(
            f"{deaths} scoring processes died on {task.name}",
            remedy="see this run's error output and the system's log for what ended them; if it was memory, set fewer "
            "workers or more shards",
        )


class Workers:
    """The processes of a day, started when there is work for them; none outlives the `with`."""

    def __init__(self, count: int, *, gpus: int) -> None:
        self._count, self._gpus, self._started = count, gpus, 0
        self._idle: list[Worker] = []
        self._busy: dict[Connection, tuple[Worker, ShardTask]] = {}

    def score(self, tasks: Sequence[ShardTask]) -> Generator[ShardResult, None, None]:
        """The shards' results as they come, the largest shards first.

        The first error of a shard is raised, and leaves the others unfinished. StorageError where MAX_ATTEMPTS
        processes died on the same shard.
        """
        waiting = deque(sorted(tasks, key=lambda task: task.keys.count, reverse=True))
        deaths: Counter[str] = Counter()
        while waiting or self._busy:
            self._give(waiting)
            for task, answer in self._answers():
                if isinstance(answer, ProfileAssetsError):
                    raise answer
                if answer is None:
                    deaths[task.name] += 1
                    _require_hope(task, deaths[task.name])
                    waiting.appendleft(task)
                else:
                    yield answer

    def _give(self, waiting: deque[ShardTask]) -> None:
        """Hand tasks out while there are processes for them."""
        while waiting and len(self._busy) < self._count:
            worker = self._idle.pop() if self._idle else self._start()
            task = waiting.popleft()
            self._busy[worker.connection] = (worker, task)
            worker.give(task)

    def _start(self) -> Worker:
        gpu = self._started % self._gpus if self._gpus else None
        self._started += 1
        return Worker(gpu)

    def _answers(self) -> Iterator[tuple[ShardTask, Answer | None]]:
        """Wait for an answer; give all that are there. A process that died over its task answers None."""
        ready = wait(list(self._busy))
        for connection in [one for one in self._busy if one in ready]:
            worker, task = self._busy.pop(connection)
            answer = worker.answer()
            if answer is None:
                worker.end()
            else:
                self._idle.append(worker)
            yield task, answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers = [*self._idle, *(worker for worker, _ in self._busy.values())]
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.end()
