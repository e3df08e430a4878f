"""Parquet files as raw batches, page checksums verified where the writer left any.

Text columns come dictionary-encoded, which is how most files store them and cheaper to judge; the id comes plain.
Rows with text that is not UTF-8 are broken rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from profile_assets.errors import SourceError
from profile_assets.storage.parquet import is_text, unpacked_bytes
from profile_assets.users.batches import BATCH_ROWS, RawBatch
from profile_assets.users.source import SourceFile, source_errors
from profile_assets.users.utf8 import split_off_bad_text

_VALUE_BYTES = 8
_MOST_PACKED = 100  # times as long as its file a table is unpacked, unless most of it is one value
_BUFFER_BYTES = 4 << 20  # a column; without it a file of one row group would be held whole


class ParquetReader:
    """One Parquet file. `plain` is the text column that is not read as a dictionary: the id."""

    def __init__(self, system: pafs.FileSystem, file: SourceFile, *, plain: str) -> None:
        self.file = file
        self._system = system
        self._plain = plain
        with source_errors(file.path), system.open_input_file(file.opened_at or file.path) as stream:
            self._metadata = pq.read_metadata(stream)
            self._schema = self._metadata.schema.to_arrow_schema()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def unpacked_bytes(self, columns: Sequence[str]) -> int:
        """Eight bytes a value, or the wanted columns' share of what the footer tells of, within what is likely: where a
        bit of that number flipped, it is told by nothing else.
        """
        wanted = len(set(columns) & set(self._schema.names))
        share = wanted / max(1, len(self._schema.names))
        told = min(unpacked_bytes(self._metadata), _MOST_PACKED * self.file.size_bytes)
        return max(int(share * told), _VALUE_BYTES * wanted * int(self._metadata.num_rows))

    def batches(self, columns: Sequence[str]) -> Iterator[RawBatch]:
        wanted = [name for name in columns if name in self._schema.names]
        as_dictionary = [name for name in wanted if name != self._plain and is_text(self._schema.field(name).type)]
        start = 1
        with self._open(as_dictionary) as parquet:
            batches = parquet.iter_batches(batch_size=BATCH_ROWS, columns=wanted)
            while (batch := self._next(batches)) is not None:
                numbers = np.arange(start, start + batch.num_rows)
                start += batch.num_rows
                with source_errors(self.file.path):
                    rows, numbers, broken = split_off_bad_text(batch, numbers)
                yield RawBatch(file=self.file, rows=rows.select(wanted), numbers=numbers, broken=broken)
            self._require_all(start - 1, parquet.metadata.num_rows)

    def _open(self, as_dictionary: list[str]) -> pq.ParquetFile:
        with source_errors(self.file.path):
            return pq.ParquetFile(
                self.file.opened_at or self.file.path,
                filesystem=self._system,
                read_dictionary=as_dictionary,
                pre_buffer=False,
                buffer_size=_BUFFER_BYTES,
                page_checksum_verification=True,
            )

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with source_errors(self.file.path):
            batch = next(batches, None)
            return None if batch is None else _without_views(batch)

    def _require_all(self, seen: int, promised: int) -> None:
        if seen != promised:
            raise SourceError(
                f"{self.file.path} gave {seen} rows, and its footer says {promised}",
                remedy="write that file again, whole, then run the day again",
            )


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text as plain text: Arrow cannot take rows of its newer string_view. What is not UTF-8 stays so."""
    arrays = [_plain(array) if pa.types.is_string_view(array.type) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain(view: pa.Array) -> pa.StringArray:
    return view.cast(pa.binary_view()).cast(pa.binary()).view(pa.string())
