"""Ray Data: read_parquet, map_batches over two actors, write_parquet. The cluster is up before the clock runs.

Options: `format` pandas (the usual encoding) or pyarrow (our encoding and network), `batch_rows`, `actors`.
"""

from __future__ import annotations

import logging

import pandas as pd
import pyarrow as pa
import ray
import ray.data

from benchmarks.child import Job, measured, read_job
from benchmarks.peers.arrow import loaded, score_batch
from benchmarks.peers.usual import score_frame

_STORE_BYTES = 2 * 1024**3


class PandasScorer:
    """An actor that holds the network."""

    def __init__(self, bundle: str) -> None:
        self.bundle, self.slots = loaded(bundle)

    def __call__(self, users: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"user_id": users["user_id"], "score": score_frame(users, self.bundle, self.slots)})


class ArrowScorer:
    """An actor that holds the network."""

    def __init__(self, bundle: str) -> None:
        self.bundle, _ = loaded(bundle)

    def __call__(self, users: pa.Table) -> pa.Table:
        return score_batch(users, self.bundle)


def main() -> None:
    """Score every file of the job."""
    job = read_job()
    actors = job.options["actors"]
    ray.init(
        num_cpus=2 * actors,  # a place to read and write beside each actor: the machine's cores are shared by both
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=_STORE_BYTES,
        _node_ip_address="127.0.0.1",
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    try:
        with measured():
            _score(job, actors)
    finally:
        ray.shutdown()


def _score(job: Job, actors: int) -> None:
    is_arrow = job.options["format"] == "pyarrow"
    users = ray.data.read_parquet([str(path) for path in job.files])
    scored = users.map_batches(
        ArrowScorer if is_arrow else PandasScorer,
        fn_constructor_args=[str(job.bundle)],
        batch_format=job.options["format"],
        batch_size=job.options["batch_rows"],
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=1,
    )
    scored.write_parquet(str(job.out))


if __name__ == "__main__":
    main()
