"""Which features moved since an earlier day, seen in a sample: why users are scored again, and what makes it pointless.

A feature that moves for everybody every day, such as days since the last order, leaves nothing to be carried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from profile_assets.errors import ContractError, CorruptError, DataError
from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.scoring.match import NOWHERE, places_among
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.stages import ID_COLUMN

SAMPLE_ROWS = 8_192


@dataclass(frozen=True, kw_only=True)
class MovedFeatures:
    """Of `looked_at` users of both days, how many had another input by each feature, in the order of the spec."""

    looked_at: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


def moved_features(
    ids: pa.Array | pa.ChunkedArray, encoded: Encoded, earlier: Sequence[Path], spec: FeatureSpec
) -> MovedFeatures:
    """Hold the first SAMPLE_ROWS users against the first of the earlier shard files, by the same spec.

    Nothing is known where those files are damaged or gone: a look stops no day.
    """
    sample = _as_array(ids.slice(0, SAMPLE_ROWS))
    try:
        before = _first_rows(earlier, 2 * SAMPLE_ROWS, spec)
        then = None if before is None else encode(before, spec)
    except (CorruptError, ContractError, DataError):
        return MovedFeatures()
    if before is None or then is None:
        return MovedFeatures()
    places = places_among(sample, _as_array(before.column(ID_COLUMN)))
    rows = np.flatnonzero(places != NOWHERE)
    has_moved = dict(_has_moved(encoded, rows, then, places[rows], spec))
    return MovedFeatures(
        looked_at=len(rows), counts={name: int(np.count_nonzero(moved)) for name, moved in has_moved.items()}
    )


def _has_moved(
    now: Encoded, rows: np.ndarray, then: Encoded, places: np.ndarray, spec: FeatureSpec
) -> Iterator[tuple[str, np.ndarray]]:
    """For each feature whether its part of the input differs, bool of shape (rows,)."""
    numbers, numbers_then = now.numeric.view(np.uint32), then.numeric.view(np.uint32)
    features = len(spec.numeric)
    for place, number in enumerate(spec.numeric):
        value, indicator = (numbers[line, rows] != numbers_then[line, places] for line in (place, features + place))
        yield number.name, value | indicator
    for place, category in enumerate(spec.categorical):
        yield category.name, now.categories[place, rows] != then.categories[place, places]


def _first_rows(paths: Sequence[Path], rows: int, spec: FeatureSpec) -> pa.Table | None:
    held: list[pa.RecordBatch] = []
    text = [category.name for category in spec.categorical]
    for path in paths:
        for batch in iter_batches(path, columns=[ID_COLUMN, *spec.columns], dictionary=text, batch_rows=rows):
            held.append(batch)
            if sum(one.num_rows for one in held) >= rows:
                return pa.Table.from_batches(held).slice(0, rows)
    return pa.Table.from_batches(held) if held else None


def _as_array(ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
    return pa.concat_arrays([chunk.cast(pa.string()) for chunk in chunks]) if chunks else pa.array([], pa.string())
