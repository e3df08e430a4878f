"""Rows on their way through threads: made ahead of their use, and cut to even blocks.

Arrow, numpy and torch let go of the interpreter while they work, so reading, forwards and writing overlap in one
process. Order is kept, and an error comes out where its item would have.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

Item = TypeVar("Item")
_END = object()


def ahead(items: Generator[Item, None, None], depth: int = 2) -> Generator[Item, None, None]:
    """The items, made by a thread of their own, up to `depth` of them before they are asked for."""
    with contextlib.closing(items), ThreadPoolExecutor(max_workers=1) as pool:
        pending = deque(pool.submit(next, items, _END) for _ in range(depth))
        try:
            while (item := pending.popleft().result()) is not _END:
                pending.append(pool.submit(next, items, _END))
                yield item  # type: ignore[misc]  # only _END is no Item
        finally:
            pool.shutdown(cancel_futures=True)


def even_blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in the same order as tables of exactly `rows` rows, the last one of what is left."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            count -= rows
            held = table.slice(rows).to_batches()
    if count:
        yield pa.Table.from_batches(held)
