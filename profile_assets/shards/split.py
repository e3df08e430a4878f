"""The landed users of a day, dealt into n files by int(md5(user_id), 16) mod n.

One streaming read with text kept dictionary-encoded; each block of rows is sorted by shard number, stably, and its
slices are appended to the files. Rows keep their order within a shard, columns their types (text becomes
dictionary-encoded text), and memory is bounded by the block, whatever the day's size. Every file exists, empty or not.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from profile_assets.errors import AccountingError, CorruptError
from profile_assets.shards.hashing import check_num_shards, shard_numbers
from profile_assets.storage import atomic
from profile_assets.storage.keys import KeySet, md5_words
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS, USERS_FILE, Layout, shard_file
from profile_assets.storage.memory import steady_memory
from profile_assets.storage.parquet import ParquetSink, is_text, iter_batches, open_parquet
from profile_assets.storage.records import FileEntry, Manifest
from profile_assets.storage.space import bytes_of, require_space
from profile_assets.storage.stages import ID_COLUMN, Staged, current, describe, is_whole, require, seal, stage_options

BLOCK_BYTES = 128 * 1024 * 1024  # 16 shards get row groups of some 70,000 rows: a dictionary serves that many
SPACE_FACTOR = 1.5
"""Bytes of all shards by those of the landed users: the same rows, in smaller groups that each have dictionaries of
their own. 1.0 to 1.25 in 16 shards, up to 1.47 in 256 with their footers (benchmarks/space.py)."""
FILE_BYTES = 16 * 1024  # a shard's footer and what its columns begin with
OPEN_FILES = 256  # written side by side; more shards than this are dealt in several passes over the source


class Watch(Protocol):
    """Is shown what a split deals, and what then lies in its files."""

    def see_rows(self, rows: pa.Table, first: int, bounds: np.ndarray) -> None:
        """Rows on their way into the shards `first`, `first` + 1, ...: shard first + i gets
        rows[bounds[i]:bounds[i + 1]].
        """

    def see_ids(self, words: np.ndarray) -> None:
        """md5 words, shape (rows, 2), of ids as they were read again from one shard's file."""

    def end_shard(self, number: int) -> None:
        """All ids of that shard have been shown."""


def split(
    layout: Layout,
    day: dt.date,
    num_shards: int,
    *,
    progress: Callable[[int], None] = lambda _: None,
    watch: Watch | None = None,
) -> Staged:
    """Deal the day's landed users into `num_shards` staged files; `progress` is told how many rows lie in them so far.

    Committed shards that were made of the same users with the same number, and are whole, are handed back as they
    are, and `watch` is shown nothing. AccountingError unless the files, read again, hold exactly the landed users.
    """
    check_num_shards(num_shards)
    raw = require(layout, RAW_USERS, day)
    done = _unchanged(layout, day, raw, num_shards)
    if done is not None:
        return Staged(folder=layout.stage(USER_SHARDS, day), manifest=done)
    require_space(layout, f"{USER_SHARDS} of {day}", SPACE_FACTOR * bytes_of(raw) + FILE_BYTES * num_shards)
    began = time.perf_counter()
    folder = atomic.empty_folder(layout.staging(USER_SHARDS, day))
    paths = [folder / shard_file(index, num_shards) for index in range(num_shards)]
    with steady_memory():
        _deal(layout.stage(RAW_USERS, day) / USERS_FILE, paths, progress, watch)
        files = tuple(_described(path, number, watch) for number, path in enumerate(paths))
    _check_sums(raw, KeySet.total(entry.keys for entry in files))
    manifest = Manifest(
        stage=USER_SHARDS,
        day=day.isoformat(),
        files=files,
        made_from={RAW_USERS: raw.digest},
        facts={"num_shards": num_shards},
        notes={"seconds": round(time.perf_counter() - began, 3)},
    )
    return seal(layout, day, manifest)


def _unchanged(layout: Layout, day: dt.date, raw: Manifest, num_shards: int) -> Manifest | None:
    """The committed manifest, if its shards are what would be made now and lie there whole."""
    try:
        done = current(layout, USER_SHARDS, day)
    except CorruptError:  # about to be made again, which is its remedy
        return None
    if done is None or done.made_from != {RAW_USERS: raw.digest} or done.facts != {"num_shards": num_shards}:
        return None
    folder = layout.stage(USER_SHARDS, day)
    return done if all(is_whole(folder / entry.name, entry) for entry in done.files) else None


def _check_sums(raw: Manifest, dealt: KeySet) -> None:
    if dealt != raw.keys:
        raise AccountingError(
            f"{RAW_USERS} of {raw.day} has {raw.keys.count} users, its shards hold {dealt.count}, or others",
            remedy="run user_shards of that day again; if it happens twice, check the machine's disk and memory",
        )


def _described(path: Path, number: int, watch: Watch | None) -> FileEntry:
    if watch is None:
        return describe(path)
    entry = describe(path, see_ids=watch.see_ids)
    watch.end_shard(number)
    return entry


def _deal(source: Path, paths: list[Path], progress: Callable[[int], None], watch: Watch | None) -> None:
    """Fill the files at `paths` from `source`: shard k goes to paths[k]."""
    rows = 0
    for first in range(0, len(paths), OPEN_FILES):
        some = paths[first : first + OPEN_FILES]
        for written in _deal_some(source, some, first=first, num_shards=len(paths), watch=watch):
            rows += written
            progress(rows)


def _deal_some(source: Path, paths: list[Path], *, first: int, num_shards: int, watch: Watch | None) -> Iterator[int]:
    """Fill shards `first`, `first` + 1, ... in one pass; gives the rows written after each block."""
    text = _text_columns(source)
    with open_parquet(source, dictionary=text) as file:
        schema = file.schema_arrow
    with contextlib.ExitStack() as stack:
        sinks = [stack.enter_context(ParquetSink(path, schema, **stage_options(schema))) for path in paths]
        # map, not a loop: a loop's variable would keep one block alive while the next is read
        deal = functools.partial(_deal_block, sinks=sinks, first=first, num_shards=num_shards, watch=watch)
        yield from map(deal, _blocks(iter_batches(source, dictionary=text)))


def _deal_block(block: pa.Table, *, sinks: list[ParquetSink], first: int, num_shards: int, watch: Watch | None) -> int:
    """Append each sink's rows of a block; gives how many there were."""
    parts: list[list[pa.RecordBatch]] = [[] for _ in sinks]
    for batch in block.to_batches():  # one at a time: the columns of a batch fit the caches, those of a block do not
        numbers = shard_numbers(md5_words(batch.column(ID_COLUMN)), num_shards)
        order = np.argsort(numbers.astype(np.min_scalar_type(num_shards)), kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(first, first + len(sinks) + 1))
        dealt = batch.take(pa.array(order[bounds[0] : bounds[-1]]))
        for part, (start, stop) in zip(parts, itertools.pairwise(bounds - bounds[0]), strict=True):
            part.append(dealt.slice(start, stop - start))
    tables = [pa.Table.from_batches(part) for part in parts]
    if watch is not None:
        watch.see_rows(pa.concat_tables(tables), first, np.cumsum([0, *(table.num_rows for table in tables)]))
    for sink, table in zip(sinks, tables, strict=True):
        sink.write(_own_dictionaries(table))
    return sum(table.num_rows for table in tables)


def _text_columns(source: Path) -> list[str]:
    """The columns that are worth a dictionary: text, but for the id, of which every value is another."""
    with open_parquet(source) as file:
        return [field.name for field in file.schema_arrow if is_text(field.type) and field.name != ID_COLUMN]


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches gathered to about BLOCK_BYTES, with one dictionary for each text column of the block."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= BLOCK_BYTES:
            yield _joined(gathered)
            size = 0
    if gathered:
        yield _joined(gathered)


def _joined(gathered: list[pa.RecordBatch]) -> pa.Table:
    """The batches as one table; the list is left empty, so that nothing is held twice."""
    table = pa.Table.from_batches(gathered).unify_dictionaries()
    gathered.clear()
    return table


def _own_dictionaries(rows: pa.Table) -> pa.Table:
    """Rows without the dictionary entries that none of them uses, where those would be most of what is written."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and rows.num_rows:
            column = rows.column(place).combine_chunks()
            if len(column.dictionary) > rows.num_rows // 2:
                rows = rows.set_column(place, field, _compact(column))
    return rows


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values with a dictionary of those that occur, in its old order."""
    missing = column.indices.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    is_used = np.zeros(len(column.dictionary), dtype=bool)
    is_used[codes] = True
    new_codes = (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[codes]
    values = column.dictionary.filter(pa.array(is_used))
    return pa.DictionaryArray.from_arrays(pa.array(new_codes, mask=missing), values)
