"""Our scorer over files of users, from disk to disk, by the engines of a day, so that what was written is read again.

Options: `processes` (1: in this process). Processes are started, and have loaded the network, before the clock runs:
in a day they live as long as the day does. What starting costs stands beside the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.child import Job, measured, read_job
from profile_assets.scoring.engines.here import score_here
from profile_assets.scoring.engines.local import Workers
from profile_assets.scoring.scorer import scorer_for
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardTask
from profile_assets.storage.stages import describe

SETTINGS = ScoringSettings(device="cpu")


def main() -> None:
    """Score every file of the job."""
    job = read_job()
    tasks = [_task(job, source) for source in job.files]
    count = job.options.get("processes", 1)
    if count == 1:
        scorer_for(job.bundle, SETTINGS)
        with measured():
            list(score_here(tasks))
        return
    with Workers(count, gpus=0) as workers:
        list(workers.score(list(_warm_up(job, count))))
        with measured():
            list(workers.score(tasks))


def _task(job: Job, source: Path) -> ShardTask:
    return ShardTask(
        source=source,
        target=job.target(source),
        bundle_path=job.bundle,
        settings=SETTINGS,
        fingerprint="",
        keys=describe(source).keys,
    )


def _warm_up(job: Job, count: int) -> Iterator[ShardTask]:
    """A few users for each process to score, so that each has loaded the network."""
    folder = job.out.with_name(f"{job.out.name}.warm")
    folder.mkdir(exist_ok=True)
    users = next(pq.ParquetFile(job.files[0]).iter_batches(batch_size=1000))
    warm = Job(files=(), bundle=job.bundle, out=job.out.with_name(f"{job.out.name}.warmed"))
    warm.out.mkdir(exist_ok=True)
    for number in range(count):
        source = folder / f"{number}.parquet"
        with pq.ParquetWriter(source, users.schema) as writer:
            writer.write_batch(users)
        yield _task(warm, source)


if __name__ == "__main__":
    main()
