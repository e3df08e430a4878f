"""The copy of a query's rows: a Parquet file in staging that lives while a day is read.

Its footer holds the types that the columns have in the database, those that are not copied too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from profile_assets.storage.parquet import ParquetSink, read_footer
from profile_assets.users.batches import RawBatch
from profile_assets.users.contract import Contract
from profile_assets.users.parquet_file import ParquetReader
from profile_assets.users.source import SourceFile

_SCHEMA_KEY = "query_schema"


def open_copy(path: Path, copied: pa.Schema, queried: pa.Schema) -> ParquetSink:
    """Where the rows go: `copied` is their schema, `queried` that of the whole query."""
    return ParquetSink(path, copied, footer={_SCHEMA_KEY: base64.b64encode(queried.serialize()).decode()})


class QueryReader:
    """Reads the copy as what it was in the database."""

    def __init__(self, file: SourceFile, contract: Contract) -> None:
        self.file = file
        self._rows = ParquetReader(pafs.LocalFileSystem(), file, plain=contract.id)
        footer = read_footer(Path(str(file.opened_at)))
        self._schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(footer[_SCHEMA_KEY])))

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def unpacked_bytes(self, columns: Sequence[str]) -> int:
        return self._rows.unpacked_bytes(columns)

    def batches(self, columns: Sequence[str]) -> Iterator[RawBatch]:
        return self._rows.batches(columns)
