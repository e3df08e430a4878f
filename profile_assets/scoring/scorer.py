"""A bundle that scores: loaded once, every forward of one fixed shape, so that a score depends on its row alone.

Rows are padded to `batch_rows`; what stands in the padding reaches no other row. A file is read, encoded, scored and
written by three threads that overlap, in bounded memory; ids and scores travel in the same record batch.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from profile_assets.errors import ScoringError
from profile_assets.features.bins import Bins
from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle import Bundle, load_bundle
from profile_assets.models.bundle_files import bins_of
from profile_assets.scoring.devices import resolve, torch_threads
from profile_assets.scoring.pipeline import ahead, even_blocks
from profile_assets.scoring.settings import BATCH_MULTIPLE, ScoringSettings
from profile_assets.storage.memory import steady_memory
from profile_assets.storage.parquet import ParquetSink, is_text, iter_batches, open_parquet
from profile_assets.storage.stages import ID_COLUMN

SCORE_COLUMN = "score"
BUNDLE_COLUMN = "bundle_id"
SCORE_SCHEMA = pa.schema(
    [(ID_COLUMN, pa.string()), (SCORE_COLUMN, pa.float32()), (BUNDLE_COLUMN, pa.dictionary(pa.int32(), pa.string()))]
)
BLOCK_ROWS = 65_536  # encoded and written at once: each looks up the values of its dictionaries once
BATCH_ROWS = "batch_rows"  # footer key: the shape in use, smaller than asked for where memory was short
UNKNOWN = "unknown"  # footer key, JSON: by category, how many values training had never seen
HISTOGRAMS = "histograms"  # footer key, JSON: by feature, how many rows in each of the bundle's bins
_CACHED = 2  # the bundle that scores and the one before it
_SHOWN = 5


def score_sink(target: Path, footer: Mapping[str, str] | None = None) -> ParquetSink:
    """Ids and scores are nearly all different, and the file is read whole: no dictionary of them, no statistics."""
    return ParquetSink(
        target, SCORE_SCHEMA, footer=footer, dictionary=[BUNDLE_COLUMN], compression="lz4", has_statistics=False
    )


@functools.lru_cache(maxsize=_CACHED)
def scorer_for(bundle_path: Path, settings: ScoringSettings) -> Scorer:
    """The scorer of a bundle, loaded once in this process. A bundle's folder is named for what is in it."""
    return Scorer(load_bundle(bundle_path, resolve(settings.device)), settings)


class Scorer:
    """One network on one device, for one thread at a time.

    `batch_rows` is the shape in use: that of the settings, or smaller where the device's memory did not hold it.
    """

    def __init__(self, bundle: Bundle, settings: ScoringSettings) -> None:
        self.bundle = bundle
        self.bins = bins_of(bundle.metrics)
        self.threads = settings.threads
        self.device = resolve(settings.device)
        self.batch_rows = settings.batch_rows
        self._numeric, self._categories = self._buffers()
        self._settle()

    def _buffers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What every forward reads: torch's memory, so that its alignment is always the same."""
        spec = self.bundle.spec
        return (
            torch.zeros(2 * len(spec.numeric), self.batch_rows, dtype=torch.float32),
            torch.zeros(len(spec.categorical), self.batch_rows, dtype=torch.int32),
        )

    def _settle(self) -> None:
        """Try one forward; halve the shape while the device has no memory for it."""
        while True:
            try:
                with torch.inference_mode(), torch_threads(self.threads):
                    self._forward()
            except torch.OutOfMemoryError as error:
                if self.batch_rows // 2 < BATCH_MULTIPLE:
                    raise ScoringError(
                        f"{self.device} has no memory for {self.batch_rows} rows of bundle {self.bundle.id}",
                        remedy="free its memory, or score on another device",
                    ) from error
                self.batch_rows //= 2
                self._numeric, self._categories = self._buffers()
            else:
                return

    def _forward(self) -> torch.Tensor:
        """Probabilities of the rows in the buffers, float32 of shape (batch_rows,)."""
        logits: torch.Tensor = self.bundle.inference(self._numeric.to(self.device), self._categories.to(self.device))
        return torch.sigmoid(logits).cpu()

    def score(self, encoded: Encoded, ids: pa.ChunkedArray | pa.Array | None = None) -> np.ndarray:
        """Probabilities, float32 of shape (rows,). ScoringError naming the users whose number is none; see `ids`."""
        scores = np.empty(encoded.rows, np.float32)
        numeric, categories = self._numeric.numpy(), self._categories.numpy()
        with torch.inference_mode(), torch_threads(self.threads):
            for start in range(0, encoded.rows, self.batch_rows):
                place = slice(start, start + self.batch_rows)
                rows = min(self.batch_rows, encoded.rows - start)
                numeric[:, :rows] = encoded.numeric[:, place]
                categories[:, :rows] = encoded.categories[:, place]
                scores[place] = self._forward().numpy()[:rows]
        self._require_probabilities(scores, ids)
        return scores

    def _require_probabilities(self, scores: np.ndarray, ids: pa.ChunkedArray | pa.Array | None) -> None:
        is_valid = (scores >= 0) & (scores <= 1)  # false for NaN
        if is_valid.all():
            return
        rows = np.flatnonzero(~is_valid)
        first = rows[:_SHOWN]
        names = [f"row {row}" for row in first] if ids is None else [f"user {ids[int(row)].as_py()!r}" for row in first]
        shown = ", ".join(f"{name}: {scores[row]}" for name, row in zip(names, first, strict=True))
        raise ScoringError(
            f"bundle {self.bundle.id} gave {len(rows)} of {len(scores)} rows a number that is no probability ({shown})",
            remedy="look at those rows and at the bundle's weights; promote another bundle, or bound the columns",
        )

    def score_file(self, source: Path, target: Path, footer: Mapping[str, str] | None = None) -> int:
        """Score the users in `source`, in their order, into a new file of SCORE_SCHEMA; gives how many they were.

        The footer gets BATCH_ROWS, UNKNOWN and HISTOGRAMS beside the entries given.
        """
        counts = Counts(self.bundle.spec, self.bins)
        with steady_memory(), score_sink(target, footer) as sink:
            for rows in ahead(self._scored(ahead(counts.watch(self._encoded(source))))):
                sink.write(rows)
            sink.add_footer({BATCH_ROWS: str(self.batch_rows), **counts.footer})
        return sink.rows

    def _encoded(self, source: Path) -> Generator[tuple[pa.ChunkedArray, Encoded], None, None]:
        spec = self.bundle.spec
        with open_parquet(source) as file:
            text = [field.name for field in file.schema_arrow if field.name in spec.columns and is_text(field.type)]
        batches = iter_batches(source, columns=[ID_COLUMN, *spec.columns], dictionary=text, batch_rows=BLOCK_ROWS)
        block_rows = self.batch_rows * max(1, BLOCK_ROWS // self.batch_rows)
        for block in even_blocks(batches, block_rows):
            yield block.column(ID_COLUMN).cast(pa.string()), encode(block, spec)

    def _scored(self, blocks: Iterator[tuple[pa.ChunkedArray, Encoded]]) -> Generator[pa.Table, None, None]:
        for ids, encoded in blocks:
            scores = pa.array(self.score(encoded, ids), pa.float32())
            yield pa.table([ids, scores, self._bundle_column(len(ids))], schema=SCORE_SCHEMA)

    def _bundle_column(self, rows: int) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([self.bundle.id]))


class Counts:
    """What is counted of the rows of one file while they are scored: unknown categories, and the bundle's bins."""

    def __init__(self, spec: FeatureSpec, bins: Bins | None) -> None:
        self._spec = spec
        self._bins = bins
        self._unknown = {feature.name: 0 for feature in spec.categorical}
        features = {} if bins is None else bins.features
        self._histograms = {name: np.zeros(len(one.shares), np.int64) for name, one in features.items()}

    def watch(
        self, blocks: Iterator[tuple[pa.ChunkedArray, Encoded]]
    ) -> Generator[tuple[pa.ChunkedArray, Encoded], None, None]:
        """The same blocks, counted."""
        for ids, encoded in blocks:
            self.add(encoded)
            yield ids, encoded

    def add(self, encoded: Encoded) -> None:
        """Count some rows."""
        for name, count in encoded.unknown.items():
            self._unknown[name] += count
        if self._bins is not None:
            for name, counts in self._bins.count(encoded, self._spec).items():
                self._histograms[name] += counts

    @property
    def footer(self) -> dict[str, str]:
        histograms = {name: counts.tolist() for name, counts in self._histograms.items()}
        return {UNKNOWN: json.dumps(self._unknown), HISTOGRAMS: json.dumps(histograms)}
