"""Does every id stand once in a file? Eight bytes a user: 64-bit hashes, sorted; equal ones are then looked at as text.

A hash that two different ids share (one chance in 370,000 at ten million users) thus costs a second look, never a
wrong answer. The hash is for this comparison alone and is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.stages import ID_COLUMN

_WORD_BYTES = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio in 64 bits: odd, so that no step loses a bit
_FOLD = np.uint64(32)
_KEEP_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(_WORD_BYTES + 1)], dtype=np.uint64)


class IdHashes:
    """The hashes of the ids of one file, gathered while its batches pass by."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, with their ids remembered."""
        for batch in batches:
            self._parts.append(hash_ids(batch.column(ID_COLUMN).drop_null()))
            yield batch

    def repeated(self) -> np.ndarray:
        """The hashes that stand more than once, each once; uint64, sorted."""
        hashes = np.sort(np.concatenate(self._parts)) if self._parts else np.empty(0, dtype=np.uint64)
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def hash_ids(ids: pa.Array) -> np.ndarray:
    """A 64-bit hash of each id's UTF-8 bytes, shape (rows,). `ids` is text without nulls."""
    text = ids.cast(pa.large_string())
    _, offset_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64, count=text.offset + len(text) + 1)[text.offset :]
    words = _words_at_each_byte(data_buffer)
    lengths = np.diff(offsets)
    hashes = lengths.astype(np.uint64) * _MULTIPLIER
    done, rows = 0, np.flatnonzero(lengths > 0)
    while len(rows):
        left = np.minimum(lengths[rows] - done, _WORD_BYTES)
        _mix(hashes, rows, words[offsets[rows] + done] & _KEEP_BYTES[left])
        done += _WORD_BYTES
        rows = rows[lengths[rows] > done]
    return hashes


def num_repeats(paths: Iterable[Path], repeated: np.ndarray) -> int:
    """How many rows say again an id that stands before, among the ids with these hashes. Reads the files again."""
    if not len(repeated):
        return 0
    suspects = [_having(batch.column(0).drop_null(), repeated) for path in paths for batch in _ids_of(path)]
    ids = pa.chunked_array(suspects, type=pa.large_string())
    return len(ids) - int(pc.count_distinct(ids).as_py())


def _ids_of(path: Path) -> Iterator[pa.RecordBatch]:
    return iter_batches(path, columns=[ID_COLUMN])


def _having(ids: pa.Array, hashes: np.ndarray) -> pa.Array:
    return ids.filter(pa.array(np.isin(hash_ids(ids), hashes))).cast(pa.large_string())


def _words_at_each_byte(data: pa.Buffer | None) -> np.ndarray:
    """The 8 bytes from each place of the buffer on as one number; beyond its end stand zeros."""
    padded = np.concatenate([np.frombuffer(data or b"", dtype=np.uint8), np.zeros(_WORD_BYTES, dtype=np.uint8)])
    return np.ndarray((len(padded) - _WORD_BYTES + 1,), dtype="<u8", buffer=padded, strides=(1,))


def _mix(hashes: np.ndarray, rows: np.ndarray, words: np.ndarray) -> None:
    """Fold a word into the hash of each of `rows`, in place."""
    mixed = (hashes[rows] ^ words) * _MULTIPLIER
    hashes[rows] = (mixed ^ (mixed >> _FOLD)) * _MULTIPLIER
