"""Parquet files as raw batches, page checksums verified where the writer left any.

Text columns come dictionary-encoded, which is how most files store them and cheaper to judge; the id comes plain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from profile_assets.errors import SourceError
from profile_assets.storage.parquet import is_text
from profile_assets.users.batches import BATCH_ROWS, RawBatch
from profile_assets.users.source import SourceFile, source_errors

_BUFFER_BYTES = 4 << 20  # a column; without it a file of one row group would be held whole


class ParquetReader:
    """One Parquet file. `plain` is the text column that is not read as a dictionary: the id."""

    def __init__(self, system: pafs.FileSystem, file: SourceFile, *, plain: str) -> None:
        self.file = file
        self._system = system
        self._plain = plain
        with source_errors(file.path), system.open_input_file(file.path) as stream:
            self._schema = pq.read_schema(stream)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def batches(self, columns: Sequence[str]) -> Iterator[RawBatch]:
        wanted = [name for name in columns if name in self._schema.names]
        as_dictionary = [name for name in wanted if name != self._plain and is_text(self._schema.field(name).type)]
        start = 1
        with self._open(as_dictionary) as parquet:
            batches = parquet.iter_batches(batch_size=BATCH_ROWS, columns=wanted)
            while (batch := self._next(batches)) is not None:
                numbers = np.arange(start, start + batch.num_rows)
                yield RawBatch(file=self.file, rows=batch.select(wanted), numbers=numbers)
                start += batch.num_rows
            self._require_all(start - 1, parquet.metadata.num_rows)

    def _open(self, as_dictionary: list[str]) -> pq.ParquetFile:
        with source_errors(self.file.path):
            return pq.ParquetFile(
                self.file.path,
                filesystem=self._system,
                read_dictionary=as_dictionary,
                pre_buffer=False,
                buffer_size=_BUFFER_BYTES,
                page_checksum_verification=True,
            )

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        """The next batch, its texts proven to be texts: no writer's UTF-8 is taken on trust."""
        with source_errors(self.file.path):
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
            return batch

    def _require_all(self, seen: int, promised: int) -> None:
        if seen != promised:
            raise SourceError(
                f"{self.file.path} gave {seen} rows, and its footer says {promised}",
                remedy="write that file again, whole, then run the day again",
            )
