"""Where the users of a shard stand among those of an earlier day, whose files may be cut and ordered otherwise.

Two days of one source nearly always have their users in nearly one order, so pieces are first held against what comes
next on the other side, which costs next to nothing; what is left is looked up by id. The place found is always that of
the same id; a user of whom none is found is new.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PIECE_ROWS = 1024
NOWHERE = -1


def places_among(today: pa.Array, earlier: pa.Array) -> np.ndarray:
    """For each id of `today` its place in `earlier`, or NOWHERE; int32 of shape (len(today),)."""
    places = np.full(len(today), NOWHERE, np.int32)
    cursor = 0
    for start in range(0, len(today), PIECE_ROWS):
        piece = today.slice(start, PIECE_ROWS)
        found = _next_places(piece, earlier, cursor)
        places[start : start + len(piece)] = found
        cursor = max(cursor, int(found.max()) + 1)
    _look_up_the_rest(places, today, earlier)
    return places


def _next_places(piece: pa.Array, earlier: pa.Array, cursor: int) -> np.ndarray:
    """The places of a piece where the other side goes on as it does, or among the next few there."""
    if earlier.slice(cursor, len(piece)).equals(piece):
        return np.arange(cursor, cursor + len(piece), dtype=np.int32)
    return _index_in(piece, earlier.slice(cursor, 2 * PIECE_ROWS), shift=cursor)


def _look_up_the_rest(places: np.ndarray, today: pa.Array, earlier: pa.Array) -> None:
    left = np.flatnonzero(places == NOWHERE)
    is_free = np.ones(len(earlier), bool)
    is_free[places[places != NOWHERE]] = False
    free = np.flatnonzero(is_free).astype(np.int32)
    if len(left) and len(free):
        among = _index_in(today.take(pa.array(left)), earlier.take(pa.array(free)))
        places[left] = np.where(among == NOWHERE, NOWHERE, free[among])


def _index_in(ids: pa.Array, among: pa.Array, *, shift: int = 0) -> np.ndarray:
    found = pc.index_in(ids, value_set=among)
    places = found.fill_null(NOWHERE).to_numpy(zero_copy_only=False)
    return np.where(places == NOWHERE, NOWHERE, places + shift).astype(np.int32)


def shards_with(index: int, count: int, other_count: int) -> list[int]:
    """Which shards of another number of them can hold the users of shard `index` of `count`.

    A user's shard is one number modulo how many there are; so both have the same remainder by their common divisor.
    """
    divisor = math.gcd(count, other_count)
    return [other for other in range(other_count) if other % divisor == index % divisor]
