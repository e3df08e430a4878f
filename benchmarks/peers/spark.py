"""Spark on this machine: read.parquet, a Python function over batches, write.parquet. The JVM is up before the clock.

Options: `how` pandas_udf (the usual encoding) or mapInArrow (our encoding and network), `batch_rows`, `cores`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import pandas_udf, struct

from benchmarks.child import Job, measured, read_job
from benchmarks.peers.arrow import loaded, score_batch
from benchmarks.peers.usual import score_frame


def main() -> None:
    """Score every file of the job."""
    job = read_job()
    spark = _session(job)
    try:
        spark.range(1).count()
        users = spark.read.parquet(*map(str, job.files))
        with measured():
            _scored(users, job).write.mode("overwrite").parquet(str(job.out))
    finally:
        spark.stop()


def _session(job: Job) -> SparkSession:
    settings = {
        "spark.master": f"local[{job.options['cores']}]",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(job.options["batch_rows"]),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("scores")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _scored(users: DataFrame, job: Job) -> DataFrame:
    bundle = str(job.bundle)
    if job.options["how"] == "mapInArrow":

        def map_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            network, _ = loaded(bundle)
            for batch in batches:
                yield from score_batch(batch, network).to_batches()

        return users.mapInArrow(map_batches, "user_id string, score float")

    def map_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.Series]:
        network, slots = loaded(bundle)
        for frame in frames:
            yield pd.Series(score_frame(frame, network, slots))

    # Given by hand: with annotations that are text, as in this file, the kind of function is not recognised.
    map_frames.__annotations__ = {"frames": Iterator[pd.DataFrame], "return": Iterator[pd.Series]}
    columns = [column for column in users.columns if column != "user_id"]
    return users.select("user_id", pandas_udf(map_frames, "float")(struct(*columns)).alias("score"))


if __name__ == "__main__":
    main()
