"""md5 of a column of ids, many at a time, in numpy.

An id of up to 55 bytes fills one md5 block, so 64 steps over whole arrays hash a slice of the column; longer ids go
through hashlib one by one. The numbers are exactly md5's (RFC 1321): anyone can recompute them from an id alone.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pyarrow as pa

from profile_assets.errors import DataError

MAX_BLOCK_BYTES = 55  # one block of 64 bytes, less the end mark and the length
LANES = 16384  # ids hashed together: measured best, the arrays of one step still fit in the fast caches

_SINES = [np.uint32(int(abs(math.sin(step + 1)) * 2**32)) for step in range(64)]
_ROTATIONS = [(7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21)]
_SHIFTS = [(np.uint32(turn), np.uint32(32 - turn)) for row in _ROTATIONS for turn in row * 4]
_ORDERS = [(1, 0), (5, 1), (3, 5), (7, 0)]
_WORD_OF_STEP = [(factor * step + start) % 16 for factor, start in _ORDERS for step in range(16)]
_START = [np.uint32(word) for word in (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)]
_LENGTH_WORD = 14


def md5_words(ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """md5 of each id's UTF-8 bytes, as uint64 of shape (rows, 2): the high word, then the low one.

    `ids` is a text column, plain or dictionary-encoded. int(md5(id).hexdigest(), 16) == (high << 64) | low.
    Raises DataError where an id is null.
    """
    words = np.empty((len(ids), 2), dtype=np.uint64)
    start = 0
    for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]:
        _hash_chunk(chunk, words[start : start + len(chunk)])
        start += len(chunk)
    return words


def text_of(ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a text array, and int64 offsets into them, shape (rows + 1,)."""
    ids = ids.cast(pa.large_string())
    _, offset_buffer, data_buffer = ids.buffers()
    if not len(ids):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    return np.frombuffer(data_buffer or b"", dtype=np.uint8), offsets


def _hash_chunk(ids: pa.Array, out: np.ndarray) -> None:
    """Fill `out`, shape (rows, 2), with the md5 words of one array of ids."""
    if ids.null_count:
        raise DataError(f"{ids.null_count} ids are null", remedy="quarantine rows without an id before they are hashed")
    if not len(ids):
        return
    data, offsets = text_of(ids)
    for start in range(0, len(ids), LANES):
        bounds = offsets[start : start + LANES + 1]
        out[start : start + LANES] = _hash_lanes(data[bounds[0] : bounds[-1]], np.diff(bounds))
    _hash_long(ids, np.flatnonzero(np.diff(offsets) > MAX_BLOCK_BYTES), out)


def _hash_long(ids: pa.Array, rows: np.ndarray, out: np.ndarray) -> None:
    """The ids that need more than one block; their lanes above held nothing of use."""
    for row in rows:
        digest = hashlib.md5(ids[int(row)].as_py().encode(), usedforsecurity=False).digest()
        out[row] = np.frombuffer(digest, dtype=">u8")


def _hash_lanes(data: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """md5 words, shape (lanes, 2), of ids that lie one after another in `data`."""
    message = _pad(data, lengths)
    state = _compress(message)
    # Each 32-bit word of the state is little-endian in the digest, which is read as two big-endian 64-bit words.
    return state.T.astype("<u4", order="C").view(">u8").astype(np.uint64)


def _pad(data: np.ndarray, lengths: np.ndarray) -> list[np.ndarray | None]:
    """The 16 little-endian message words of each id, shape (lanes,) each; None for a word that is zero in all."""
    lanes, longest = len(lengths), int(lengths.max())
    block = np.zeros((lanes, 64), dtype=np.uint8)
    if longest > MAX_BLOCK_BYTES:  # those ids are hashed elsewhere: their lanes hash nothing
        is_fitting = lengths <= MAX_BLOCK_BYTES
        data = data[np.repeat(is_fitting, lengths)]
        lengths = np.where(is_fitting, lengths, 0)
        longest = int(lengths.max())
    if longest == lengths.min():
        block[:, :longest] = data.reshape(lanes, longest)
    else:
        block[:, :longest][np.arange(longest) < lengths[:, None]] = data
    block[np.arange(lanes), lengths] = 0x80
    num_words = longest // 4 + 1
    words: list[np.ndarray | None] = [None] * 16
    words[:num_words] = list(np.ascontiguousarray(block.view("<u4")[:, :num_words].T, dtype=np.uint32))
    words[_LENGTH_WORD] = (lengths * 8).astype(np.uint32)
    return words


def _compress(message: list[np.ndarray | None]) -> np.ndarray:
    """The state after the 64 steps of md5, shape (4, lanes) of uint32."""
    lanes = len(message[_LENGTH_WORD])  # type: ignore[arg-type]  # that word is always there
    state = np.empty((4, lanes), dtype=np.uint32)
    state[:] = np.array(_START)[:, None]
    a, b, c, d = state.copy()
    mixed, scratch = np.empty((2, lanes), dtype=np.uint32)
    for step in range(64):
        _MIX[step // 16](b, c, d, mixed)
        a += mixed
        word = message[_WORD_OF_STEP[step]]
        if word is not None:
            a += word
        a += _SINES[step]
        left, right = _SHIFTS[step]
        np.left_shift(a, left, out=scratch)
        a >>= right
        a |= scratch
        a += b
        a, b, c, d = d, a, b, c
    state += np.stack([a, b, c, d])
    return state


def _mix_first(b: np.ndarray, c: np.ndarray, d: np.ndarray, out: np.ndarray) -> None:
    np.bitwise_xor(c, d, out=out)
    out &= b
    out ^= d


def _mix_second(b: np.ndarray, c: np.ndarray, d: np.ndarray, out: np.ndarray) -> None:
    np.bitwise_xor(b, c, out=out)
    out &= d
    out ^= c


def _mix_third(b: np.ndarray, c: np.ndarray, d: np.ndarray, out: np.ndarray) -> None:
    np.bitwise_xor(b, c, out=out)
    out ^= d


def _mix_fourth(b: np.ndarray, c: np.ndarray, d: np.ndarray, out: np.ndarray) -> None:
    np.invert(d, out=out)
    out |= b
    out ^= c


_MIX = (_mix_first, _mix_second, _mix_third, _mix_fourth)
