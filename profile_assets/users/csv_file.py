"""CSV files with a header as raw batches, every column as the text that stands there.

A row with too many or too few fields, or with bytes that are not UTF-8, is broken, not lost. A file that was cut short
is refused where that can be seen: a quote that is opened and never closed, or a last row that lacks both fields and a
line end. Rows are numbered without the header and without empty lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs

from profile_assets.errors import SourceError
from profile_assets.users.batches import BrokenRow, RawBatch, bounded, text_bytes
from profile_assets.users.csv_stream import WatchedCsv, has_mark, split_off_marked, unmarked
from profile_assets.users.source import CsvSettings, SourceFile, source_errors

_BLOCK_BYTES = 8 << 20


class CsvReader:
    """One CSV file."""

    def __init__(self, system: pafs.FileSystem, file: SourceFile, settings: CsvSettings) -> None:
        self.file = file
        self._system = system
        self._settings = settings
        with source_errors(file.path), self._stream() as stream:
            names = self._open(stream, wanted=[], broken=[]).schema.names
        _require_utf8(file.path, names)
        self._schema = pa.schema([(name, pa.string()) for name in names])

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def unpacked_bytes(self, columns: Sequence[str]) -> int:  # noqa: ARG002 - a text's columns are not apart
        return text_bytes(self.file)

    def batches(self, columns: Sequence[str]) -> Iterator[RawBatch]:
        wanted = [name for name in columns if name in self._schema.names]
        broken: list[BrokenRow] = []
        with source_errors(self.file.path):
            stream = self._stream()
        with stream:
            yield from self._numbered(stream, wanted, broken)

    def _numbered(self, stream: WatchedCsv, wanted: list[str], broken: list[BrokenRow]) -> Iterator[RawBatch]:
        start, told = 1, 0
        ending = ""
        last_column = self._schema.names[-1]  # an unclosed quote shows there: read, though not always asked for
        for block in self._blocks(stream, sorted({*wanted, last_column}), broken):
            for rows in bounded(block):
                numbers = _skipping(start, rows.num_rows, broken)
                news = tuple(broken[told:])  # Arrow reads ahead: more may come while this batch is worked on
                told += len(news)
                if rows.num_rows:
                    start, ending = int(numbers[-1]) + 1, rows.column(last_column)[-1].as_py()
                good, numbers, bad = split_off_marked(rows.select(wanted), numbers, stream)
                yield RawBatch(file=self.file, rows=good, numbers=numbers, broken=(*news, *bad))
        is_short = bool(broken) and broken[-1].number >= start
        self._require_whole(stream, broken[-1].text if is_short else ending, is_short=is_short)
        nothing = pa.RecordBatch.from_pylist([], self._schema).select(wanted)
        yield RawBatch(file=self.file, rows=nothing, numbers=np.arange(0), broken=tuple(broken[told:]))

    def _blocks(self, stream: WatchedCsv, wanted: list[str], broken: list[BrokenRow]) -> Iterator[pa.RecordBatch]:
        with source_errors(self.file.path):
            batches = self._open(stream, wanted=wanted, broken=broken)
        while True:
            with source_errors(self.file.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _stream(self) -> WatchedCsv:
        return WatchedCsv(self._system.open_input_stream(self.file.path, compression="detect"))

    def _open(self, stream: WatchedCsv, *, wanted: list[str], broken: list[BrokenRow]) -> pacsv.CSVStreamingReader:
        def set_aside(row: Any) -> str:
            reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
            broken.append(BrokenRow(number=row.number - 1, reason=reason, text=unmarked(row.text)))
            return "skip"

        return pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pacsv.ParseOptions(
                delimiter=self._settings.delimiter, newlines_in_values=True, invalid_row_handler=set_aside
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in wanted},
                include_columns=wanted,
                strings_can_be_null=False,
                check_utf8=False,  # the stream has seen to it
            ),
        )

    def _require_whole(self, stream: WatchedCsv, ending: str, *, is_short: bool) -> None:
        """SourceError where the file evidently ends in the middle of its last row, whose text ends in `ending`."""
        is_open_quote = stream.quotes % 2 == 1 and (not stream.has_line_end or "\n" in ending)
        if is_open_quote or (is_short and not stream.has_line_end):
            raise SourceError(
                f"{self.file.path} was cut short: its last row has no end",
                remedy="write that file again, whole, then run the day again",
            )


def _require_utf8(path: str, names: Sequence[str]) -> None:
    """SourceError where the header is text of another encoding; in rows, such a field sets its row aside."""
    odd = next((name for name in names if has_mark(name) or "\0" in name), None)
    if odd is not None:
        raise SourceError(
            f"{path} is not UTF-8: its header has a column {unmarked(odd)!r}",
            remedy="write that file as UTF-8 (from UTF-16 or Latin-1: iconv -f ... -t UTF-8), then run the day again",
        )


def _skipping(start: int, rows: int, broken: Sequence[BrokenRow]) -> np.ndarray:
    """The numbers of the next `rows` good rows from `start` on, those of broken rows left out."""
    taken = np.array([row.number for row in broken if row.number >= start], dtype=np.int64)
    numbers = np.arange(start, start + rows + len(taken))
    return numbers[~np.isin(numbers, taken)][:rows]
