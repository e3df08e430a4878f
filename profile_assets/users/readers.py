"""The reader of a source file, by the source's format."""

from __future__ import annotations

from profile_assets.users.batches import Reader
from profile_assets.users.contract import Contract
from profile_assets.users.csv_file import CsvReader
from profile_assets.users.ndjson_file import NdjsonReader
from profile_assets.users.parquet_file import ParquetReader
from profile_assets.users.query_copy import QueryReader
from profile_assets.users.source import SourceFile, SourceSettings, filesystem


def reader_of(settings: SourceSettings, file: SourceFile, contract: Contract) -> Reader:
    """Opens the file far enough to know its columns. Raises SourceError where that fails."""
    if settings.format == "sql":
        return QueryReader(file, contract)
    system = filesystem(settings)
    if settings.format == "parquet":
        return ParquetReader(system, file, plain=contract.id)
    if settings.format == "csv":
        return CsvReader(system, file, settings.csv)
    return NdjsonReader(system, file, contract)
