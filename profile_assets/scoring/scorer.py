"""A bundle that scores: loaded once, every forward of one fixed shape, so that a score depends on its row alone.

Rows are padded to `batch_rows`; what stands in the padding reaches no other row. A file is read, encoded, scored and
written by three threads that overlap, in bounded memory; ids and scores travel in the same record batch.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import torch

from profile_assets.errors import ScoringError
from profile_assets.features.encode import Encoded, encode
from profile_assets.models.bundle import Bundle, load_bundle
from profile_assets.models.bundle_files import bins_of
from profile_assets.scoring.carrying import EXTRA_FIELDS, Carry, Carrying
from profile_assets.scoring.counts import HISTOGRAMS as HISTOGRAMS  # part of what this module offers
from profile_assets.scoring.counts import UNKNOWN as UNKNOWN
from profile_assets.scoring.counts import Counts
from profile_assets.scoring.devices import resolve, share_memory, torch_threads
from profile_assets.scoring.lanes import Lane, MakeLanes, make_lanes
from profile_assets.scoring.pipeline import ahead, even_blocks
from profile_assets.scoring.settings import BATCH_MULTIPLE, ScoringSettings
from profile_assets.storage.memory import steady_memory
from profile_assets.storage.parquet import ParquetSink, is_text, iter_batches, open_parquet
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.storage.written import ScoreOrder

SCORE_COLUMN = "score"
BUNDLE_COLUMN = "bundle_id"
SCORE_SCHEMA = pa.schema(
    [(ID_COLUMN, pa.string()), (SCORE_COLUMN, pa.float32()), (BUNDLE_COLUMN, pa.dictionary(pa.int32(), pa.string()))]
)
CARRIED_SCHEMA = pa.schema([*SCORE_SCHEMA, *EXTRA_FIELDS])
"""That of the score files of a day that is scored incrementally."""
BLOCK_ROWS = 65_536  # encoded and written at once: each looks up the values of its dictionaries once
BATCH_ROWS = "batch_rows"  # footer key: the shape in use, smaller than asked for where memory was short
ROWS_DIGEST = "rows_digest"  # footer key: `ScoreOrder.digest` of what was handed to the file
_CACHED = 3  # the bundle that scores, the one before it, and a canary
_SHOWN = 5

Ids: TypeAlias = pa.ChunkedArray | pa.Array
_Block: TypeAlias = tuple[Ids | None, Encoded, np.ndarray]  # the last: its scores, filled batch by batch
_Batch: TypeAlias = tuple[Lane, slice, _Block]


def score_sink(target: Path, footer: Mapping[str, str] | None = None, schema: pa.Schema = SCORE_SCHEMA) -> ParquetSink:
    """Ids and scores are nearly all different, and the file is read whole: no dictionary of them, no statistics."""
    coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return ParquetSink(target, schema, footer=footer, dictionary=coded, compression="lz4", has_statistics=False)


@functools.lru_cache(maxsize=_CACHED)
def scorer_for(bundle_path: Path, settings: ScoringSettings) -> Scorer:
    """The scorer of a bundle, loaded once in this process. A bundle's folder is named for what is in it."""
    device = resolve(settings.device)
    share_memory(device, settings.memory_fraction)
    return Scorer(load_bundle(bundle_path, device), settings)


class Scorer:
    """One network on one device, for one thread at a time.

    `batch_rows` is the shape in use: that of the settings, or smaller where the device's memory did not hold it.
    """

    def __init__(self, bundle: Bundle, settings: ScoringSettings, *, lanes: MakeLanes = make_lanes) -> None:
        self.bundle = bundle
        self.bins = bins_of(bundle.metrics)
        self.threads = settings.threads
        self.device = resolve(settings.device)
        self.batch_rows = settings.batch_rows
        self.forwards = 0  # batches so far
        self._make_lanes = lanes
        self._lanes: Sequence[Lane] = ()
        self._settle()

    def _settle(self) -> None:
        """Try one forward on every lane; halve the shape while the device has no memory for it."""
        while True:
            try:
                with torch.inference_mode(), torch_threads(self.threads):
                    self._lanes = self._make_lanes(
                        self.device,
                        self.bundle.inference,
                        2 * len(self.bundle.spec.numeric),
                        len(self.bundle.spec.categorical),
                        self.batch_rows,
                    )
                    for lane in self._lanes:
                        lane.start()
                    for lane in self._lanes:
                        lane.finish()
            except torch.OutOfMemoryError as error:
                self._halve(error)
            else:
                return

    def _halve(self, error: torch.OutOfMemoryError) -> None:
        """Half the rows; ScoringError where that is less than the least shape."""
        if self.batch_rows // 2 < BATCH_MULTIPLE:
            raise ScoringError(
                f"{self.device} has no memory for {self.batch_rows} rows of bundle {self.bundle.id}",
                remedy="free its memory, or score on another device",
            ) from error
        self.batch_rows = self.batch_rows // 2 // BATCH_MULTIPLE * BATCH_MULTIPLE
        self._lanes = ()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def shrink(self, error: torch.OutOfMemoryError) -> None:
        """Go on with half the shape, or less, which the device's memory holds. ScoringError where there is none."""
        self._halve(error)
        self._settle()

    def score(self, encoded: Encoded, ids: Ids | None = None) -> np.ndarray:
        """Probabilities, float32 of shape (rows,). ScoringError naming the users whose number is none; see `ids`."""
        for _, _, scores in self._forwards([(ids, encoded)]):
            return scores
        return np.empty(0, np.float32)

    def _forwards(
        self, blocks: Iterable[tuple[Ids | None, Encoded]]
    ) -> Iterator[tuple[Ids | None, Encoded, np.ndarray]]:
        """Each block with its scores; blocks without rows are left out.

        As many batches are under way as there are lanes, also from one block to the next, so that a GPU never waits.
        """
        under_way: deque[_Batch] = deque()
        turns = itertools.cycle(self._lanes)
        for ids, encoded in blocks:
            block = (ids, encoded, np.empty(encoded.rows, np.float32))
            for start in range(0, encoded.rows, self.batch_rows):
                under_way.append(self._started(next(turns), block, start))
                if len(under_way) == len(self._lanes):
                    yield from self._landed(under_way.popleft())
        while under_way:
            yield from self._landed(under_way.popleft())

    def _started(self, lane: Lane, block: _Block, start: int) -> _Batch:
        encoded = block[1]
        place = slice(start, min(start + self.batch_rows, encoded.rows))
        lane.numeric[:, : place.stop - start] = encoded.numeric[:, place]
        lane.categories[:, : place.stop - start] = encoded.categories[:, place]
        with torch.inference_mode(), torch_threads(self.threads):
            lane.start()
        self.forwards += 1
        return lane, place, block

    def _landed(self, batch: _Batch) -> Iterator[_Block]:
        """Wait for a batch and put its scores in their place; gives the block whose last batch it was."""
        lane, place, block = batch
        ids, _, scores = block
        scores[place] = lane.finish()[: place.stop - place.start]
        if place.stop == len(scores):
            self._require_probabilities(scores, ids)
            yield block

    def _require_probabilities(self, scores: np.ndarray, ids: Ids | None) -> None:
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

    def score_file(
        self, source: Path, target: Path, footer: Mapping[str, str] | None = None, carry: Carry | None = None
    ) -> int:
        """Score the users in `source`, in their order, into a new file of SCORE_SCHEMA; gives how many they were.

        With `carry`, scores are carried where they can be, and the file is of CARRIED_SCHEMA. The footer gets
        BATCH_ROWS, ROWS_DIGEST, UNKNOWN and HISTOGRAMS beside the entries given, and those of `Carrying`. Where the
        device's memory ends on the way, the whole file is done again at half the shape: all its scores come from
        forwards of one shape.
        """
        while True:
            try:
                return self._score_file(source, target, footer, carry)
            except torch.OutOfMemoryError as error:
                self.shrink(error)

    def _score_file(self, source: Path, target: Path, footer: Mapping[str, str] | None, carry: Carry | None) -> int:
        counts, order = Counts(self.bundle.spec, self.bins), ScoreOrder()
        carrying = carry and Carrying(carry, source, self.bundle.spec, batch_rows=self.batch_rows)
        blocks = ahead(counts.watch(self._encoded(source)))
        with (
            steady_memory(),
            score_sink(target, footer, CARRIED_SCHEMA if carrying else SCORE_SCHEMA) as sink,
            contextlib.closing(ahead(self._carried(blocks, carrying) if carrying else self._scored(blocks))) as scored,
        ):
            for rows in scored:
                order.add(rows.column(ID_COLUMN), rows.column(SCORE_COLUMN))
                sink.write(rows)
            sink.add_footer({BATCH_ROWS: str(self.batch_rows), ROWS_DIGEST: order.digest, **counts.footer})
            sink.add_footer(carrying.footer if carrying else {})
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
        for ids, _, scores in self._forwards(blocks):
            columns = [ids, pa.array(scores, pa.float32()), self._bundle_column(len(scores))]
            yield pa.table(columns, schema=SCORE_SCHEMA)

    def _carried(
        self, blocks: Generator[tuple[pa.ChunkedArray, Encoded], None, None], carrying: Carrying
    ) -> Generator[pa.Table, None, None]:
        for rows in carrying.rows(blocks, self._forwards):
            columns = [rows.ids, pa.array(rows.scores, pa.float32()), self._bundle_column(len(rows.scores))]
            yield pa.table([*columns, *rows.extra_columns], schema=CARRIED_SCHEMA)

    def _bundle_column(self, rows: int) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([self.bundle.id]))
