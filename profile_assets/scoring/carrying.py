"""A shard of which only those users pass through the network whose model input is not that of an earlier day.

Every user is encoded; where the digest of the encoded row is the one that stands beside the user's score of the
earlier day, that score is the one that a forward would give, to the bit, and is carried. The others are gathered into
forwards of the same fixed shape. The file says of each row by which route its score came, and its digest, for the
next day to carry on from. In memory lie the earlier users of the shard, and today's results: about 50 bytes a user.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from profile_assets.features.encode import Encoded
from profile_assets.features.spec import FeatureSpec
from profile_assets.scoring.input_digest import input_digests
from profile_assets.scoring.match import NOWHERE, places_among
from profile_assets.scoring.moved import MovedFeatures, moved_features
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.routes import ROUTE_COLUMN, ROUTES
from profile_assets.storage.stages import ID_COLUMN

DIGEST_COLUMN = "input_digest"
EXTRA_FIELDS = (
    pa.field(ROUTE_COLUMN, pa.dictionary(pa.int32(), pa.string())),
    pa.field(DIGEST_COLUMN, pa.uint64()),
)
"""What a score file of an incremental day has beside the columns of every score file."""
CARRYING = "carrying"  # footer key, JSON: how many users were carried, scored and new, and which features moved
MADE_BY = "made_by"  # footer key: `fingerprint.maker`, by which alone scores are carried

_ROUTE_NAMES = pa.array(ROUTES)
_OUT_ROWS = 65_536

Ids: TypeAlias = pa.Array | pa.ChunkedArray
Block: TypeAlias = tuple[Ids | None, Encoded]
Forwards: TypeAlias = Callable[[Iterator[Block]], Iterator[tuple[Ids | None, Encoded, np.ndarray]]]


@dataclass(frozen=True, kw_only=True)
class Carry:
    """What a shard may carry: score files of an earlier day in which its users stand; none of them where no day can be
    carried from. `inputs` are shard files of that day, to see in a sample which features moved.
    """

    made_by: str
    scores: tuple[Path, ...] = ()
    inputs: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some rows of the file: ids, scores float32, whether each is carried, and the digests of their input, uint64."""

    ids: Ids
    scores: np.ndarray
    is_carried: np.ndarray
    digests: np.ndarray

    @property
    def extra_columns(self) -> list[pa.Array]:
        """The columns of EXTRA_FIELDS."""
        routes = pa.DictionaryArray.from_arrays(pa.array(self.is_carried.astype(np.int32)), _ROUTE_NAMES)
        return [routes, pa.array(self.digests)]


@dataclass(frozen=True, kw_only=True)
class _Earlier:
    ids: pa.Array
    scores: np.ndarray
    digests: np.ndarray


class Carrying:
    """The way of one shard. `rows` is its score file, in the order of the shard; `footer` holds afterwards."""

    def __init__(self, carry: Carry, source: Path, spec: FeatureSpec, *, batch_rows: int) -> None:
        self._carry, self._source, self._spec, self._batch_rows = carry, source, spec, batch_rows
        self._counts = {"carried": 0, "scored": 0, "new": 0}
        self._moved = MovedFeatures()

    @property
    def footer(self) -> dict[str, str]:
        told = {**self._counts, "looked_at": self._moved.looked_at, "moved": dict(self._moved.counts)}
        return {MADE_BY: self._carry.made_by, CARRYING: json.dumps(told)}

    def rows(self, blocks: Generator[Block, None, None], forwards: Forwards) -> Iterator[Rows]:
        """Every row of the blocks; `forwards` scores blocks and gives them back in their order."""
        if self._carry.scores:
            yield from self._rows_carried(self._looked_at(blocks), forwards)
        else:
            yield from self._rows_scored(blocks, forwards)

    def _rows_scored(self, blocks: Iterator[Block], forwards: Forwards) -> Iterator[Rows]:
        """Nothing to carry: each block as it comes."""
        for ids, encoded, scores in forwards(blocks):
            self._counts["scored"] += len(scores)
            self._counts["new"] += len(scores)
            nothing = np.zeros(len(scores), bool)
            yield Rows(ids=ids, scores=scores, is_carried=nothing, digests=input_digests(encoded))

    def _rows_carried(self, blocks: Iterator[Block], forwards: Forwards) -> Iterator[Rows]:
        earlier, ids = _read_earlier(self._carry.scores), _ids_of([self._source])
        done = _Done(earlier, places_among(ids, earlier.ids))
        for places, scores in done.forwarded(ids, blocks, forwards, self._batch_rows):
            done.scores[places] = scores
        self._counts["carried"] = int(np.count_nonzero(done.is_carried))
        self._counts["scored"] = len(ids) - self._counts["carried"]
        self._counts["new"] = int(np.count_nonzero(done.places == NOWHERE))
        for start in range(0, len(ids), _OUT_ROWS):
            yield done.slice(ids, slice(start, min(start + _OUT_ROWS, len(ids))))

    def _looked_at(self, blocks: Generator[Block, None, None]) -> Generator[Block, None, None]:
        """The same blocks; of the first one a sample is held against the earlier day's input, where that is at hand."""
        is_first = bool(self._carry.inputs)
        for ids, encoded in blocks:
            if is_first and ids is not None:
                self._moved = moved_features(ids, encoded, self._carry.inputs, self._spec)
            is_first = False
            yield ids, encoded


class _Done:
    """The results of a shard, filled in as its blocks are encoded and its changed users scored."""

    def __init__(self, earlier: _Earlier, places: np.ndarray) -> None:
        self.places, self._earlier = places, earlier
        self.scores = np.empty(len(places), np.float32)
        self.digests = np.empty(len(places), np.uint64)
        self.is_carried = np.zeros(len(places), bool)

    def forwarded(
        self, ids: pa.Array, blocks: Iterator[Block], forwards: Forwards, batch_rows: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Carry what can be; of the others, their rows and scores, as whole batches are scored."""
        waiting: deque[np.ndarray] = deque()

        def batches() -> Iterator[Block]:
            for rows, encoded in _whole_batches(self._changed(blocks), batch_rows):
                waiting.append(rows)
                yield ids.take(pa.array(rows)), encoded

        for _, _, scores in forwards(batches()):
            yield waiting.popleft(), scores

    def _changed(self, blocks: Iterator[Block]) -> Iterator[tuple[np.ndarray, Encoded]]:
        start = 0
        for _, encoded in blocks:
            rows = slice(start, start + encoded.rows)
            self.digests[rows] = input_digests(encoded)
            changed = self._carry_over(rows)
            if len(changed):
                yield changed + start, _columns(encoded, changed)
            start = rows.stop

    def _carry_over(self, rows: slice) -> np.ndarray:
        """Take over the scores of the users whose digest stands still; gives where in these rows the others are."""
        places = self.places[rows]
        is_same = places != NOWHERE
        if len(self._earlier.ids):
            np.logical_and(is_same, self._earlier.digests[places] == self.digests[rows], out=is_same)
            self.scores[rows] = self._earlier.scores[places]  # of the others too, to be overwritten
        self.is_carried[rows] = is_same
        return np.flatnonzero(~is_same)

    def slice(self, ids: pa.Array, rows: slice) -> Rows:
        return Rows(
            ids=ids.slice(rows.start, rows.stop - rows.start),
            scores=self.scores[rows],
            is_carried=self.is_carried[rows],
            digests=self.digests[rows],
        )


def _whole_batches(
    parts: Iterator[tuple[np.ndarray, Encoded]], batch_rows: int
) -> Iterator[tuple[np.ndarray, Encoded]]:
    """The same rows in the same order, cut so that only the last batch of all is not full."""
    held: list[tuple[np.ndarray, Encoded]] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part[0])
        if count >= batch_rows:
            rows, encoded = _joined(held)
            whole = count // batch_rows * batch_rows
            yield rows[:whole], _columns(encoded, slice(0, whole))
            held, count = [(rows[whole:], _columns(encoded, slice(whole, count)))], count - whole
    if count:
        yield _joined(held)


def _joined(parts: list[tuple[np.ndarray, Encoded]]) -> tuple[np.ndarray, Encoded]:
    if len(parts) == 1:
        return parts[0]
    encoded = Encoded(
        numeric=np.concatenate([one.numeric for _, one in parts], axis=1),
        categories=np.concatenate([one.categories for _, one in parts], axis=1),
        unknown={},
    )
    return np.concatenate([rows for rows, _ in parts]), encoded


def _columns(encoded: Encoded, which: np.ndarray | slice) -> Encoded:
    """Some of the rows (which are columns in these arrays); what is counted of all rows is counted elsewhere."""
    return Encoded(numeric=encoded.numeric[:, which], categories=encoded.categories[:, which], unknown={})


def _read_earlier(paths: tuple[Path, ...]) -> _Earlier:
    batches = [one for path in paths for one in iter_batches(path, columns=[ID_COLUMN, "score", DIGEST_COLUMN])]
    if not batches:
        return _Earlier(ids=pa.array([], pa.string()), scores=np.empty(0, np.float32), digests=np.empty(0, np.uint64))
    ids, scores, digests = pa.Table.from_batches(batches).columns
    return _Earlier(ids=_plain(ids), scores=scores.to_numpy(), digests=digests.to_numpy())


def _ids_of(paths: list[Path]) -> pa.Array:
    batches = [batch for path in paths for batch in iter_batches(path, columns=[ID_COLUMN])]
    return _plain(pa.Table.from_batches(batches).column(0)) if batches else pa.array([], pa.string())


def _plain(ids: pa.ChunkedArray) -> pa.Array:
    whole = ids.cast(pa.string()).combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
