"""Source rows on their way in: what every format's reader gives, whatever the format.

A reader knows its file's columns before any row (`schema`) and then gives bounded batches of the columns asked for.
Rows are numbered from 1 in their file. A row that is no row at all (a CSV line with too few fields, a line that is
no JSON object) is never dropped: it travels beside the batch as a `BrokenRow`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from profile_assets.users.source import COMPRESSED, SourceFile

BATCH_ROWS = 128 * 1024
UNPACKS = 8
"""Times as long as its compressed file a text of rows is: 2 to 9 were measured, 36 for long ids that are alike."""


@dataclass(frozen=True, kw_only=True)
class BrokenRow:
    """A row that could not be taken apart. `text` is the row as it stands in the file."""

    number: int
    reason: str
    text: str


@dataclass(frozen=True, kw_only=True)
class RawBatch:
    """At most BATCH_ROWS rows as the file has them. `numbers`: int64 (rows,), the row's number in the file."""

    file: SourceFile
    rows: pa.RecordBatch
    numbers: np.ndarray
    broken: tuple[BrokenRow, ...] = ()


class Reader(Protocol):
    """One source file. `schema` is None where the file has no row that could tell (NDJSON only)."""

    file: SourceFile

    @property
    def schema(self) -> pa.Schema | None: ...

    def unpacked_bytes(self, columns: Sequence[str]) -> int:
        """About what these columns take once they are unpacked; nothing but the file's footer is read for it."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[RawBatch]:
        """Every row, in the order of the file; of `columns` those that the file has. Raises SourceError."""
        ...


def text_bytes(file: SourceFile) -> int:
    """About the bytes of a text file once it is unpacked."""
    return file.size_bytes * (UNPACKS if file.path.endswith(COMPRESSED) else 1)


def bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most BATCH_ROWS rows; an empty one stays one empty slice."""
    for start in range(0, max(batch.num_rows, 1), BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def regrouped(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in tables of BATCH_ROWS rows, the last one shorter: even row groups however a source is cut."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        while rows >= BATCH_ROWS:
            table = pa.Table.from_batches(pending, schema)
            yield table.slice(0, BATCH_ROWS)
            pending = table.slice(BATCH_ROWS).to_batches()
            rows -= BATCH_ROWS
    if rows:
        yield pa.Table.from_batches(pending, schema)
