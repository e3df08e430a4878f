"""NDJSON files as raw batches: one object a line, numbers exact, columns by the contract's types.

Blocks of whole lines go through Arrow's reader, which takes them only where every value has the JSON type that its
column calls for. A block that it does not take is read line by line, so that one odd value costs its own row and not
its block. Rows are numbered by their line. A file's columns are those of its first lines; a key that a row lacks is
null there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.json as pajson

from profile_assets.errors import SourceError
from profile_assets.users.batches import BrokenRow, RawBatch, bounded, text_bytes
from profile_assets.users.contract import Contract
from profile_assets.users.ids import id_family, mixed_ids
from profile_assets.users.json_lines import WHOLE, NotARowError, Number, as_column, columns_of, is_utf8, parse_line
from profile_assets.users.source import SourceFile, source_errors

_BLOCK_BYTES = 8 << 20
_PROBE_BYTES = 1 << 20
_PROBE_LINES = 1000
_BOM = b"\xef\xbb\xbf"
_WHOLE_ID = pa.decimal128(38, 0)


@dataclass(kw_only=True)
class _Lines:
    """What a block holds, line by line: objects with their line numbers, and lines that are none."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    broken: list[BrokenRow] = field(default_factory=list)


class NdjsonReader:
    """One file of JSON lines."""

    def __init__(self, system: pafs.FileSystem, file: SourceFile, contract: Contract) -> None:
        self.file = file
        self._system = system
        self._id = contract.id
        self._types = {column.name: column.type for column in contract.columns}
        block, _ = next(self._blocks(_PROBE_BYTES), (b"", False))
        self._schema = columns_of(_take_apart(block.split(b"\n")[:_PROBE_LINES], 1).objects)

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def unpacked_bytes(self, columns: Sequence[str]) -> int:  # noqa: ARG002 - a text's columns are not apart
        return text_bytes(self.file) // 2  # the other half is names, quotes and braces

    def batches(self, columns: Sequence[str]) -> Iterator[RawBatch]:
        known = self._schema.names if self._schema is not None else []
        columns = [name for name in columns if name in known or name in self._types]
        line = 1
        for block, is_open in self._blocks(_BLOCK_BYTES):
            rows = self._fast(block, columns)
            if rows is None:
                lines = _take_apart(block.split(b"\n")[:-1], line)
                self._require_whole(lines, is_open, line + block.count(b"\n") - 1)
                yield from self._slow(lines, columns)
            else:
                numbers = np.arange(line, line + rows.num_rows)
                yield from self._numbered(rows, numbers, ())
            line += block.count(b"\n")

    def _blocks(self, size_bytes: int) -> Iterator[tuple[bytes, bool]]:
        """Whole lines, about `size_bytes` of them, and whether the last one had no line end in the file."""
        with source_errors(self.file.path):
            stream = self._system.open_input_stream(self.file.path, compression="detect")
        rest = b""
        with stream:
            while data := self._read(stream, size_bytes):
                head, end, tail = data.rpartition(b"\n")
                if not end:
                    rest += tail
                    continue
                yield (rest + head + end).removeprefix(_BOM), False
                rest = tail
        if rest:
            yield rest.removeprefix(_BOM) + b"\n", True

    def _read(self, stream: pa.NativeFile, size_bytes: int) -> bytes:
        with source_errors(self.file.path):
            return bytes(stream.read(size_bytes))

    def _fast(self, block: bytes, columns: Sequence[str]) -> pa.RecordBatch | None:
        """The block by Arrow's reader; None where it has a line or a value that is not as it should be."""
        lines = block.count(b"\n")
        if block.count(b"\n{") + block.startswith(b"{") != lines or not is_utf8(block):
            return None
        schema = pa.schema([(name, self._fast_type(name)) for name in columns])
        try:
            table = pajson.read_json(
                io.BytesIO(block),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0] if table.num_rows == lines else None

    def _fast_type(self, name: str) -> pa.DataType:
        if name == self._id:
            return pa.int64() if self._probed_family() == "whole numbers" else pa.string()
        declared = self._types.get(name, pa.string())
        if pa.types.is_temporal(declared):
            return pa.string()
        if pa.types.is_fixed_size_list(declared):
            return pa.list_(declared.value_type)
        return pa.int64() if pa.types.is_integer(declared) else declared

    def _probed_family(self) -> str | None:
        schema = self._schema
        return id_family(schema.field(self._id).type) if schema is not None and self._id in schema.names else None

    def _slow(self, lines: _Lines, columns: Sequence[str]) -> Iterator[RawBatch]:
        arrays = [self._column(name, [row.get(name) for row in lines.objects], lines.numbers) for name in columns]
        rows = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        yield from self._numbered(rows, np.array(lines.numbers, dtype=np.int64), tuple(lines.broken))

    def _numbered(self, rows: pa.RecordBatch, numbers: np.ndarray, broken: tuple[BrokenRow, ...]) -> Iterator[RawBatch]:
        start = 0
        for part in bounded(rows):
            here = numbers[start : start + part.num_rows]
            yield RawBatch(file=self.file, rows=part, numbers=here, broken=() if start else broken)
            start += part.num_rows

    def _column(self, name: str, values: list[Any], numbers: list[int]) -> pa.Array:
        if name != self._id:
            return as_column(values, self._types.get(name, pa.string()))
        present = [(value, number) for value, number in zip(values, numbers, strict=True) if value is not None]
        if not present:
            return pa.nulls(len(values))
        is_whole = self._is_whole(*present[0])
        for value, number in present[1:]:
            if self._is_whole(value, number) != is_whole:
                first, row = present[0]
                raise mixed_ids(self._id, self.file.path, number, f"{_told(value)}, and row {row} {_told(first)}")
        return pa.array(values, pa.string()).cast(_WHOLE_ID if is_whole else pa.string())

    def _is_whole(self, value: Any, number: int) -> bool:
        """Whether an id is a whole number and not text; anything else is not an id."""
        if isinstance(value, str) and not isinstance(value, Number):
            return False
        if isinstance(value, Number) and WHOLE.fullmatch(value):
            return True
        raise mixed_ids(self._id, self.file.path, number, f"{_told(value)}, which is neither text nor a whole number")

    def _require_whole(self, lines: _Lines, is_open: bool, last: int) -> None:
        """SourceError where the last line of the file is no row and has no end."""
        if is_open and lines.broken and lines.broken[-1].number == last:
            raise SourceError(
                f"{self.file.path} was cut short: its last line has no end",
                remedy="write that file again, whole, then run the day again",
            )


def _told(value: Any) -> str:
    """A JSON value, with its type where that cannot be seen."""
    if isinstance(value, Number):
        return f"the number {value}"
    return f"the text {value!r}" if isinstance(value, str) else repr(value)


def _take_apart(lines: Sequence[bytes], first: int) -> _Lines:
    found = _Lines()
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            found.objects.append(parse_line(line))
            found.numbers.append(number)
        except NotARowError as error:
            found.broken.append(BrokenRow(number=number, reason=str(error), text=line.decode(errors="replace")))
    return found
