"""Whether contestants gave the same scores: the same users, and each score within 1e-6."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TOLERANCE = 1e-6


class DisagreementError(Exception):
    """Two contestants scored a user differently, or not the same users."""


def check(outputs: Mapping[str, Path]) -> dict[str, float]:
    """Compare every output with the first one; the greatest difference of each, by name."""
    (first, reference), *others = [(name, _scores(folder)) for name, folder in outputs.items()]
    return {name: _difference(first, reference, name, scores) for name, scores in others}


def _scores(folder: Path) -> pa.Table:
    """user_id, score of every Parquet file below a folder, by user."""
    files = sorted(path for path in folder.rglob("*.parquet") if path.stat().st_size)
    tables = [pq.ParquetFile(path).read(columns=["user_id", "score"]) for path in files]
    schema = pa.schema([("user_id", pa.string()), ("score", pa.float64())])
    return pa.concat_tables([table.cast(schema) for table in tables]).sort_by("user_id")


def _difference(first: str, reference: pa.Table, name: str, scores: pa.Table) -> float:
    if not reference["user_id"].equals(scores["user_id"]):
        raise DisagreementError(f"{name} and {first} did not score the same users")
    apart = np.abs(reference["score"].to_numpy() - scores["score"].to_numpy())
    worst = float(apart.max(initial=0.0))
    if not worst <= TOLERANCE:
        raise DisagreementError(f"{name} is up to {worst:.2g} apart from {first}")
    return worst
