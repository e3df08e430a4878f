"""Users dealt into buckets of about 64: one small read finds a user, and a day loads in large pieces.

A user's bucket is the low half of md5(user_id) modulo the number of buckets. A value is 5 bytes: the score as
little-endian float32, then the place of its route in `rows.ROUTES`. Ids are bytes of their own, beside their lengths,
so that no id can be mistaken for a separator.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import CorruptError, DataError
from profile_assets.feature_store.rows import ROUTES
from profile_assets.storage.keys import md5_words
from profile_assets.storage.stages import ID_COLUMN

USERS = 64
BLOCK_ROWS = 1 << 20
ROW_SCHEMA = pa.schema([(ID_COLUMN, pa.string()), ("score", pa.float32()), ("route", pa.string())])
VALUE = np.dtype([("score", "<f4"), ("route", "u1")])
_VALUE = struct.Struct("<fB")
VALUE_BYTES = _VALUE.size


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a store keeps of one user."""

    score: float
    route: str


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Users of one bucket: the byte lengths of their ids (uint32), the ids one after another, the values likewise."""

    number: int
    lengths: np.ndarray
    ids: memoryview
    values: memoryview


def num_buckets(rows: int) -> int:
    """How many buckets `rows` users are dealt into."""
    return max(1, -(-rows // USERS))


def bucket_numbers(ids: pa.Array | pa.ChunkedArray, count: int) -> np.ndarray:
    """The bucket of each id, int64 of shape (rows,)."""
    return (md5_words(ids)[:, 1] % np.uint64(count)).astype(np.int64)


def bucket_number(user: bytes, count: int) -> int:
    """The bucket of one id: a lookup of few users is over long before `bucket_numbers` has warmed up."""
    return int.from_bytes(hashlib.md5(user, usedforsecurity=False).digest()[8:]) % count


def deal(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[list[Bucket]]:
    """The users of each block of BLOCK_ROWS in buckets, by ascending number; memory is bounded by the block.

    A bucket whose users lie in several blocks comes once in each.
    """
    for block in _blocks(batches):
        yield _dealt(block, count)


def pieces(buckets: Iterable[Bucket], rows: int) -> Iterator[list[Bucket]]:
    """The buckets in pieces of at most that many rows, or of one bucket."""
    piece: list[Bucket] = []
    size = 0
    for bucket in buckets:
        if piece and size + len(bucket.lengths) > rows:
            yield piece
            piece, size = [], 0
        piece.append(bucket)
        size += len(bucket.lengths)
    if piece:
        yield piece


def fields(bucket: Bucket) -> list[bytes]:
    """Ids and values in turn."""
    found: list[bytes] = []
    ids, values = bytes(bucket.ids), bytes(bucket.values)
    start = 0
    for place, length in enumerate(bucket.lengths.tolist()):
        found += (ids[start : start + length], values[place * VALUE_BYTES : (place + 1) * VALUE_BYTES])
        start += length
    return found


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        if rows >= BLOCK_ROWS:
            yield pa.Table.from_batches(gathered)
            gathered, rows = [], 0
    if rows:
        yield pa.Table.from_batches(gathered)


def _dealt(block: pa.Table, count: int) -> list[Bucket]:
    numbers = bucket_numbers(block.column(ID_COLUMN), count)
    order = np.argsort(numbers, kind="stable")
    block, numbers = block.take(pa.array(order)), numbers[order]
    values = memoryview(encode_values(block.column("score"), block.column("route")).tobytes())
    offsets, data = _id_bytes(block.column(ID_COLUMN))
    lengths = np.diff(offsets).astype("<u4")
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return [
        Bucket(
            number=int(numbers[start]),
            lengths=lengths[start:stop],
            ids=data[offsets[start] : offsets[stop]],
            values=values[start * VALUE_BYTES : stop * VALUE_BYTES],
        )
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True)
    ]


def _id_bytes(ids: pa.ChunkedArray) -> tuple[np.ndarray, memoryview]:
    """Offsets, shape (rows + 1,), into the ids' bytes, and those bytes."""
    joined = ids.cast(pa.large_string()).combine_chunks()
    array = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return offsets, memoryview(data or b"")


def encode_values(scores: pa.ChunkedArray, routes: pa.ChunkedArray) -> np.ndarray:
    """One VALUE a user. DataError for a route that has no place."""
    codes = pc.index_in(routes, pa.array(ROUTES))
    if codes.null_count:
        raise DataError("a score has a route that is none of " + ", ".join(ROUTES), remedy="publish that day again")
    values = np.empty(len(scores), VALUE)
    values["score"], values["route"] = scores.to_numpy(), codes.to_numpy()
    return values


def decode_value(value: bytes) -> Record:
    """CorruptError where the bytes are no value."""
    if len(value) != VALUE_BYTES:
        raise CorruptError(f"a value of {len(value)} bytes is online", remedy="publish the newest day again")
    score, code = _VALUE.unpack(value)
    return Record(score=score, route=_route(code))


def decode_rows(ids: pa.Array, values: bytes) -> pa.RecordBatch:
    """Many users at once: their ids, and their values one after another."""
    if len(values) != len(ids) * VALUE_BYTES:
        raise CorruptError("values and ids online are not as many", remedy="publish the newest day again")
    found = np.frombuffer(values, VALUE)
    _route(int(found["route"].max(initial=0)))
    routes = pa.array(ROUTES).take(pa.array(found["route"]))
    scores = pa.array(np.ascontiguousarray(found["score"]))
    return pa.RecordBatch.from_arrays([ids, scores, routes], schema=ROW_SCHEMA)


def find(lengths: bytes, ids: bytes, values: bytes, *, user: bytes) -> Record | None:
    """One user in a bucket as `Bucket` has it; None where the user is not in it."""
    sizes = struct.unpack(f"<{len(lengths) // 4}I", lengths)
    starts = list(itertools.accumulate(sizes, initial=0))
    at = ids.find(user)
    while at >= 0:  # the bytes may also lie inside another id, or across two
        place = bisect.bisect_left(starts, at)
        while place < len(sizes) and starts[place] == at:  # an empty id starts where the next one does
            if sizes[place] == len(user):
                return decode_value(values[place * VALUE_BYTES : (place + 1) * VALUE_BYTES])
            place += 1
        at = ids.find(user, at + 1)
    return None


def _route(code: int) -> str:
    if code >= len(ROUTES):
        raise CorruptError(f"route {code} is online", remedy="use the version that wrote it, or publish again")
    return ROUTES[code]
