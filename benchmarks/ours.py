"""Our scorer over files of users, from disk to disk.

Options: `processes` (1: in this process). Processes are started, and have loaded the network, before the clock runs:
in a day they live as long as the day does. What starting costs stands beside the result.
"""

from __future__ import annotations

import multiprocessing as mp
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from benchmarks.child import Job, measured, read_job
from profile_assets.scoring.scorer import scorer_for
from profile_assets.scoring.settings import ScoringSettings


def main() -> None:
    """Score every file of the job."""
    job = read_job()
    if job.options.get("processes", 1) == 1:
        _in_this_process(job)
    else:
        _in_processes(job, job.options["processes"])


def _in_this_process(job: Job) -> None:
    scorer = scorer_for(job.bundle, ScoringSettings(device="cpu"))
    with measured():
        for source in job.files:
            scorer.score_file(source, job.target(source))


def _in_processes(job: Job, count: int) -> None:
    context = mp.get_context("spawn")
    waiting, done = context.SimpleQueue(), context.SimpleQueue()
    workers = [context.Process(target=_work, args=(job, waiting, done), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    for _ in workers:
        done.get()  # each says once that it is ready
    with measured():
        for source in job.files:
            waiting.put(source)
        for _ in job.files:
            done.get()
    for _ in workers:
        waiting.put(None)
    for worker in workers:
        worker.join()


def _work(job: Job, waiting: SimpleQueue[Path | None], done: SimpleQueue[str]) -> None:
    scorer = scorer_for(job.bundle, ScoringSettings(device="cpu"))
    done.put("ready")
    while (source := waiting.get()) is not None:
        scorer.score_file(source, job.target(source))
        done.put(source.name)


if __name__ == "__main__":
    main()
