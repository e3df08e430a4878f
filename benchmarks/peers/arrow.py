"""What a peer at its best maps over Arrow batches: our own encoding and our own network, loaded once a process."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from benchmarks.peers.usual import Lookups, lookups
from profile_assets.features.encode import encode
from profile_assets.models.bundle import Bundle, load_bundle

FORWARD_ROWS = 4096


@functools.cache
def loaded(bundle: str) -> tuple[Bundle, Lookups]:
    """The bundle and its lookups, once in each process."""
    torch.set_num_threads(1)
    bundle_in_use = load_bundle(Path(bundle))
    return bundle_in_use, lookups(bundle_in_use.spec)


def score_batch(rows: pa.Table | pa.RecordBatch, bundle: Bundle) -> pa.Table:
    """user_id and score; forwards of 4096 rows, which the caches of a CPU like best."""
    encoded = encode(rows, bundle.spec)
    scores = np.empty(encoded.rows, np.float32)
    with torch.inference_mode():
        for part in _slices(encoded.rows):
            numeric = torch.from_numpy(np.ascontiguousarray(encoded.numeric[:, part]))
            categories = torch.from_numpy(np.ascontiguousarray(encoded.categories[:, part]))
            scores[part] = torch.sigmoid(bundle.inference(numeric, categories)).numpy()
    return pa.table({"user_id": rows.column("user_id"), "score": scores})


def _slices(rows: int) -> Iterator[slice]:
    for start in range(0, rows, FORWARD_ROWS):
        yield slice(start, min(start + FORWARD_ROWS, rows))
