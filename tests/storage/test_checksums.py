"""Files that say when they were damaged, and are read in bounded pieces."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import CorruptError, DiskError, StorageError
from profile_assets.storage.parquet import (
    ROW_GROUP_ROWS,
    ParquetSink,
    file_digest,
    is_text,
    iter_batches,
    open_parquet,
    read_footer,
)


def rows(count: int) -> pa.Table:
    draw = np.random.default_rng(3)
    return pa.table(
        {
            "user_id": [f"{number:06d}" for number in range(count)],
            "plan": pa.array(draw.choice(["free", "paid"], count), pa.string()),
            "spent": draw.random(count),
        }
    )


def write(path: Path, table: pa.Table, **options: object) -> Path:
    with ParquetSink(path, table.schema, **options) as sink:  # type: ignore[arg-type]
        sink.write(table)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    table = rows(500)
    with ParquetSink(tmp_path / "a.parquet", table.schema, footer={"day": "2026-01-05"}) as sink:
        sink.write(table.slice(0, 200))
        sink.write(table.slice(200).combine_chunks().to_batches()[0])
        sink.add_footer({"rows": "500"})
    assert sink.rows == 500
    assert pa.Table.from_batches(list(iter_batches(tmp_path / "a.parquet"))).equals(table)
    assert read_footer(tmp_path / "a.parquet") == {"day": "2026-01-05", "rows": "500"}


def test_batches_are_bounded_and_cover_every_row_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows(1000))
    batches = list(iter_batches(path, columns=["user_id"], batch_rows=300))
    assert max(batch.num_rows for batch in batches) <= 300
    assert pa.Table.from_batches(batches).equals(rows(1000).select(["user_id"]))


def test_text_columns_can_stay_dictionaries(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows(100))
    (batch,) = iter_batches(path, dictionary=["plan"])
    assert pa.types.is_dictionary(batch.column("plan").type)
    assert batch.column("user_id").type == pa.string()


def test_dictionaries_and_statistics_are_only_where_they_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows(100), dictionary=["plan"], has_statistics=False)
    group = pq.read_metadata(path).row_group(0)
    assert ["DICTIONARY" in " ".join(group.column(place).encodings) for place in range(3)] == [False, True, False]
    assert not any(group.column(place).is_stats_set for place in range(3))
    text = write(tmp_path / "b.parquet", rows(100))
    group = pq.read_metadata(text).row_group(0)
    assert ["DICTIONARY" in " ".join(group.column(place).encodings) for place in range(3)] == [True, True, False]


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    table = pa.table({"number": np.arange(ROW_GROUP_ROWS + 5)})
    metadata = pq.read_metadata(write(tmp_path / "a.parquet", table))
    assert [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)] == [ROW_GROUP_ROWS, 5]


def test_any_flipped_bit_in_the_pages_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows(2000))
    content = path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    ends = [group.column(place).total_compressed_size for place in range(3)]
    draw = np.random.default_rng(1)
    for place in draw.integers(4, sum(ends), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(draw.integers(8))
        path.write_bytes(damaged)
        with contextlib.suppress(CorruptError):
            found = pa.Table.from_batches(list(iter_batches(path)))
            assert found.equals(rows(2000)), f"byte {place} was changed and nobody noticed"


@pytest.mark.parametrize("size", [0, 8, -1])
def test_a_cut_file_is_named(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "a.parquet", rows(100))
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    for read in (lambda: list(iter_batches(path)), lambda: read_footer(path), lambda: open_parquet(path)):
        with pytest.raises(CorruptError, match=r"a\.parquet cannot be read"):
            read()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for read in (lambda: list(iter_batches(tmp_path / "no.parquet")), lambda: file_digest(tmp_path / "no.parquet")):
        with pytest.raises(CorruptError, match=r"no\.parquet"):
            read()


def test_an_error_of_the_consumer_is_not_taken_for_a_damaged_file(tmp_path: Path) -> None:
    batches = iter_batches(write(tmp_path / "a.parquet", rows(100)))
    with pytest.raises(pa.ArrowInvalid):
        list(map(lambda batch: batch.column("plan").cast(pa.int32()), batches))  # noqa: C417


def test_a_sink_that_cannot_be_opened_says_where(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        ParquetSink(tmp_path / "nowhere" / "a.parquet", rows(1).schema)


def test_an_error_inside_a_sink_is_the_one_that_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"), ParquetSink(tmp_path / "a.parquet", rows(1).schema):
        raise KeyError("mine")


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    link = tmp_path / "a.parquet"
    link.symlink_to(full)
    with pytest.raises(DiskError, match="No space left") as caught:
        write(link, rows(200_000))
    assert "free some space" in caught.value.remedy


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Arrow's own default keeps what it has read: the high mark would be the file's size."""
    table = pa.table({"number": np.random.default_rng(2).random(2_000_000)})
    path = write(tmp_path / "a.parquet", table)
    del table
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in iter_batches(path, batch_rows=ROW_GROUP_ROWS)]
    assert path.stat().st_size > 14_000_000
    assert max(held) < 6_000_000


def test_the_digest_is_sha256_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    assert file_digest(tmp_path / "a") == hashlib.sha256(b"abc" * 100_000).hexdigest()


def test_text_is_recognised_in_any_layout() -> None:
    text = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    assert all(is_text(kind) for kind in text)
    assert not any(is_text(kind) for kind in (pa.int64(), pa.binary(), pa.dictionary(pa.int32(), pa.int64())))
