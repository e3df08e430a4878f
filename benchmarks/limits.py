"""What no scorer on this machine can beat: one part of the work alone, everything else in memory already.

Option `part`: read (Parquet to Arrow, text kept as dictionaries), encode, forward (one thread, 4096 rows), write
(ids and scores to Parquet), hash (md5 of the ids). Together they are the profile of scoring and splitting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from benchmarks.child import Job, measured, read_job
from profile_assets.features.encode import Encoded, encode
from profile_assets.models.bundle import Bundle, load_bundle
from profile_assets.scoring.scorer import SCORE_SCHEMA, score_sink
from profile_assets.storage.keys import md5_words
from profile_assets.storage.parquet import iter_batches

BATCH_ROWS = 4096


def main() -> None:
    """The part that the job names."""
    torch.set_num_threads(1)
    job = read_job()
    bundle = load_bundle(job.bundle)
    _PARTS[job.options["part"]](job, bundle)


def _rows(job: Job, bundle: Bundle) -> Iterator[pa.RecordBatch]:
    text = [category.name for category in bundle.spec.categorical]
    for source in job.files:
        yield from iter_batches(source, columns=["user_id", *bundle.spec.columns], dictionary=text)


def read(job: Job, bundle: Bundle) -> None:
    """Every column that scoring needs."""
    with measured():
        for _ in _rows(job, bundle):
            pass


def encode_only(job: Job, bundle: Bundle) -> None:
    """Rows in memory to the network's arrays, a batch at a time."""
    batches = list(_rows(job, bundle))
    with measured():
        for batch in batches:
            encode(batch, bundle.spec)


def forward(job: Job, bundle: Bundle) -> None:
    """Tensors in memory to probabilities. Every batch is its own memory, as in a day."""
    batches = [
        (torch.from_numpy(part.numeric), torch.from_numpy(part.categories))
        for batch in _rows(job, bundle)
        for part in _parts(encode(batch, bundle.spec))
    ]
    with torch.inference_mode(), measured():
        for numeric, categories in batches:
            torch.sigmoid(bundle.inference(numeric, categories))


def write(job: Job, bundle: Bundle) -> None:
    """Ids and scores in memory to files of the form that a day has."""
    scores = np.random.default_rng(0)
    tables = []
    for batch in _rows(job, bundle):
        score = pa.array(scores.random(batch.num_rows, dtype=np.float32))
        bundle_id = pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, np.int32), [bundle.id])
        tables.append(pa.record_batch([batch.column(0), score, bundle_id], schema=SCORE_SCHEMA))
    with measured(), score_sink(job.target(Path("scores.parquet"))) as sink:
        for table in tables:
            sink.write(table)


def hash_ids(job: Job, bundle: Bundle) -> None:
    """md5 of every id."""
    ids = [batch.column(0) for batch in _rows(job, bundle)]
    with measured():
        for column in ids:
            md5_words(column)


def _parts(encoded: Encoded) -> Iterator[Encoded]:
    for start in range(0, encoded.rows - BATCH_ROWS + 1, BATCH_ROWS):
        stop = start + BATCH_ROWS
        yield Encoded(
            numeric=np.ascontiguousarray(encoded.numeric[:, start:stop]),
            categories=np.ascontiguousarray(encoded.categories[:, start:stop]),
            unknown={},
        )


_PARTS: dict[str, Callable[[Job, Bundle], None]] = {
    "read": read,
    "encode": encode_only,
    "forward": forward,
    "write": write,
    "hash": hash_ids,
}


if __name__ == "__main__":
    main()
