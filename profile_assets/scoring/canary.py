"""A shard of which a stable share of the users gets the score of another bundle, the canary.

Each bundle sees its users encoded by its own spec, in forwards of its own of the one fixed shape; a score depends on
its row and its bundle alone, so users outside the share get the very bits they would get without a canary. The file
says of each row which bundle gave its score, and by which route it came.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from profile_assets.features.encode import encode
from profile_assets.scoring.counts import HISTOGRAMS, UNKNOWN, Counts
from profile_assets.scoring.pipeline import ahead, even_blocks
from profile_assets.scoring.scorer import (
    BATCH_ROWS,
    BLOCK_ROWS,
    ROWS_DIGEST,
    SCORE_COLUMN,
    SCORE_SCHEMA,
    Scorer,
    score_sink,
)
from profile_assets.storage.memory import steady_memory
from profile_assets.storage.parquet import is_text, iter_batches, open_parquet
from profile_assets.storage.routes import CANARY as ROUTE_CANARY
from profile_assets.storage.routes import FULL, ROUTE_COLUMN
from profile_assets.storage.share import in_share
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.storage.written import ScoreOrder

CANARY = "canary"  # footer key, JSON: rows of the share, and what was counted of them; key of made_from and facts
CANARY_SCHEMA = pa.schema([*SCORE_SCHEMA, (ROUTE_COLUMN, pa.dictionary(pa.int32(), pa.string()))])
"""That of the score files of a day of which a share was scored by the canary."""
WHY_FULL = "a canary scores a share of the users: nothing is carried while it does"
_ROUTE_NAMES = pa.array([FULL, ROUTE_CANARY])


@dataclass(frozen=True, kw_only=True)
class Canary:
    """The bundle that a share of the users is scored by, and which share."""

    bundle_path: Path
    share: float
    salt: str

    @property
    def bundle_id(self) -> str:
        return self.bundle_path.name

    def to_json(self) -> dict[str, Any]:
        """What tells one canary from another, wherever its bundle lies."""
        return {"bundle_id": self.bundle_id, "share": self.share, "salt": self.salt}

    def takes(self, ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Which of these users are its own, bool of shape (rows,)."""
        return in_share(ids, self.share, self.salt)


def score_file_in_two(
    stable: Scorer, other: Scorer, canary: Canary, source: Path, target: Path, footer: Mapping[str, str]
) -> int:
    """Score the users in `source`, in their order, into a new file of CANARY_SCHEMA; gives how many they were.

    The footer gets what `Scorer.score_file` puts there, about the users of the stable bundle, and CANARY, about those
    of the canary. Where the device's memory ends on the way, all is done again at half the shape.
    """
    while True:
        try:
            return _score(stable, other, canary, source, target, footer)
        except torch.OutOfMemoryError as error:
            stable.shrink(error)
            other.shrink(error)


def _score(stable: Scorer, other: Scorer, canary: Canary, source: Path, target: Path, footer: Mapping[str, str]) -> int:
    counts = (Counts(stable.bundle.spec, stable.bins), Counts(other.bundle.spec, other.bins))
    order, taken = ScoreOrder(), 0
    with (
        steady_memory(),
        score_sink(target, footer, CANARY_SCHEMA) as sink,
        contextlib.closing(ahead(_blocks(stable, other, source))) as blocks,
    ):
        for block in blocks:
            is_taken = canary.takes(block.column(ID_COLUMN))
            rows = _rows(block, is_taken, (stable, other), counts)
            taken += int(np.count_nonzero(is_taken))
            order.add(rows.column(ID_COLUMN), rows.column(SCORE_COLUMN))
            sink.write(rows)
        sink.add_footer({BATCH_ROWS: str(stable.batch_rows), ROWS_DIGEST: order.digest, **counts[0].footer})
        sink.add_footer({CANARY: json.dumps({"rows": taken, **_counted(counts[1])})})
    return sink.rows


def _counted(counts: Counts) -> dict[str, Any]:
    return {name: json.loads(counts.footer[name]) for name in (UNKNOWN, HISTOGRAMS)}


def _blocks(stable: Scorer, other: Scorer, source: Path) -> Generator[pa.Table, None, None]:
    """The rows of a shard with every column that either bundle takes."""
    columns = list(dict.fromkeys((*stable.bundle.spec.columns, *other.bundle.spec.columns)))
    with open_parquet(source) as file:
        text = [field.name for field in file.schema_arrow if field.name in columns and is_text(field.type)]
    batches = iter_batches(source, columns=[ID_COLUMN, *columns], dictionary=text, batch_rows=BLOCK_ROWS)
    yield from even_blocks(batches, stable.batch_rows * max(1, BLOCK_ROWS // stable.batch_rows))


def _rows(
    block: pa.Table, is_taken: np.ndarray, scorers: tuple[Scorer, Scorer], counts: tuple[Counts, Counts]
) -> pa.Table:
    ids = block.column(ID_COLUMN).cast(pa.string())
    scores = np.empty(block.num_rows, np.float32)
    for scorer, counted, mask in zip(scorers, counts, (~is_taken, is_taken), strict=True):
        if mask.any():
            part = block.filter(pa.array(mask))
            encoded = encode(part, scorer.bundle.spec)
            counted.add(encoded)
            scores[mask] = scorer.score(encoded, part.column(ID_COLUMN))
    which = pa.array(is_taken.astype(np.int32))
    bundles = pa.DictionaryArray.from_arrays(which, pa.array([one.bundle.id for one in scorers]))
    routes = pa.DictionaryArray.from_arrays(which, _ROUTE_NAMES)
    return pa.table([ids, pa.array(scores), bundles, routes], schema=CANARY_SCHEMA)


def bundles_of(canary: Canary, stable_id: str, ids: pa.Array) -> pa.Array:
    """Whose score each of these users is to have."""
    return pa.array([stable_id, canary.bundle_id]).take(pa.array(canary.takes(ids).astype(np.int32)))


def canary_facts(canary: Canary, by_shard: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What belongs to the scores of a day about the canary's users, from what each shard counted."""
    return {
        **canary.to_json(),
        "rows": sum(one["rows"] for one in by_shard.values()),
        "rows_by_shard": {name: one["rows"] for name, one in by_shard.items()},
        "unknown": {name: int(sum(counts)) for name, counts in _by_name(by_shard, UNKNOWN)},
        "unknown_by_shard": {name: one[UNKNOWN] for name, one in by_shard.items()},
        "histograms": {name: np.sum(counts, axis=0).tolist() for name, counts in _by_name(by_shard, HISTOGRAMS)},
        "histograms_by_shard": {name: one[HISTOGRAMS] for name, one in by_shard.items()},
    }


def _by_name(by_shard: Mapping[str, Mapping[str, Any]], kind: str) -> Iterator[tuple[str, list[Any]]]:
    names = dict.fromkeys(name for one in by_shard.values() for name in one[kind])
    yield from ((name, [one[kind][name] for one in by_shard.values() if name in one[kind]]) for name in names)


def canary_from(told: Mapping[str, Any] | None, models: Path) -> Canary | None:
    """The canary that a record tells of, its bundle among `models`; None where it tells of none."""
    if told is None:
        return None
    return Canary(bundle_path=models / told["bundle_id"], share=told["share"], salt=told["salt"])
