"""Items made ahead keep their order and their errors; blocks keep their rows."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_assets.errors import DataError
from profile_assets.scoring.pipeline import ahead, even_blocks


def numbers(count: int) -> Generator[int, None, None]:
    yield from range(count)


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_items_come_in_order(count: int, depth: int) -> None:
    assert list(ahead(numbers(count), depth)) == list(range(count))


def test_items_are_made_in_another_thread() -> None:
    def names() -> Generator[str, None, None]:
        yield threading.current_thread().name

    assert list(ahead(names())) != [threading.current_thread().name]


def test_an_error_comes_after_the_items_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise DataError("row 2 is odd", remedy="look at it")

    items = ahead(failing())
    assert next(items) == 1
    with pytest.raises(DataError, match="row 2 is odd"):
        next(items)


def test_what_is_no_longer_wanted_is_closed_and_its_thread_ends() -> None:
    closed = threading.Event()

    def endless() -> Generator[int, None, None]:
        try:
            number = 0
            while True:
                yield (number := number + 1)
        finally:
            closed.set()

    before = threading.active_count()
    items = ahead(endless())
    assert next(items) == 1
    items.close()
    assert closed.is_set()
    assert threading.active_count() == before


def test_stages_can_be_chained() -> None:
    def doubled(items: Generator[int, None, None]) -> Generator[int, None, None]:
        for item in items:
            yield 2 * item

    assert list(ahead(doubled(ahead(numbers(100))))) == list(range(0, 200, 2))


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 30), max_size=10), rows=st.integers(1, 40))
def test_even_blocks_keep_every_row_and_only_the_last_is_short(sizes: list[int], rows: int) -> None:
    whole = pa.table({"number": pa.array(range(sum(sizes)), pa.int64())})
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    pieces = [whole.slice(start, size).combine_chunks() for start, size in zip(starts, sizes, strict=True)]
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    blocks = list(even_blocks(batches, rows))
    assert [len(block) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
    assert all(0 < len(block) <= rows for block in blocks)
    assert [number for block in blocks for number in block.column(0).to_pylist()] == list(range(sum(sizes)))
