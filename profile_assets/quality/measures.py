"""Numbers about the columns of each shard, taken by Arrow while the shards are written: what limits are held against.

Missing means null, NaN or blank (empty or only spaces), each counted apart, over *all* rows. Out of range means
beyond the contract's bounds or none of its values. Least and greatest are those of the values that are there,
infinity included. How often an id is said again comes from what was re-read of the written file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from profile_assets.errors import AccountingError
from profile_assets.quality.counting import Piece, pieces_of
from profile_assets.storage.keys import md5_words
from profile_assets.storage.parquet import is_text, iter_batches, open_parquet
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.users.contract import Column, Contract
from profile_assets.users.repeats import Repeats, rows_to_drop

SCHEMA = pa.schema(
    [
        ("shard", pa.string()),
        ("column", pa.string()),
        ("rows", pa.int64()),
        ("nulls", pa.int64()),
        ("nans", pa.int64()),
        ("blanks", pa.int64()),
        ("out_of_range", pa.int64()),
        ("distinct", pa.int64()),
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
    ]
)


@dataclass(kw_only=True)
class Measure:
    """The running counts of one column, of one shard or of the day. `distinct` is known for the id alone."""

    column: str
    rows: int = 0
    nulls: int = 0
    nans: int = 0
    blanks: int = 0
    out_of_range: int = 0
    distinct: int | None = None
    minimum: float | None = None
    maximum: float | None = None

    @property
    def missing(self) -> int:
        return self.nulls + self.nans + self.blanks

    @property
    def null_rate(self) -> float:
        """The share of all rows whose value is missing; NaN where there are no rows."""
        return self.missing / self.rows if self.rows else math.nan

    def add(self, piece: Piece) -> None:
        """Count rows of the column."""
        self.rows += piece.rows
        self.nulls += piece.nulls
        self.nans += piece.nans
        self.blanks += piece.blanks
        self.out_of_range += piece.out_of_range
        self._widen(piece.minimum, piece.maximum)

    def __add__(self, other: Measure) -> Measure:
        """The measure of both together; `distinct` adds up, because a user is in one shard only."""
        is_known = self.distinct is not None and other.distinct is not None
        total = Measure(
            column=self.column,
            rows=self.rows + other.rows,
            nulls=self.nulls + other.nulls,
            nans=self.nans + other.nans,
            blanks=self.blanks + other.blanks,
            out_of_range=self.out_of_range + other.out_of_range,
            distinct=(self.distinct or 0) + (other.distinct or 0) if is_known else None,
        )
        for one in (self, other):
            total._widen(*(math.nan if bound is None else bound for bound in (one.minimum, one.maximum)))
        return total

    def _widen(self, low: float, high: float) -> None:
        if math.isnan(low):  # no values at all, or nothing but NaN
            return
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)


@dataclass(frozen=True, kw_only=True)
class DayMeasures:
    """The measures of a day: `shards` by file and column, `day` by column. A column that is not there has none; nor has
    a shard without rows, of which nothing can be observed.
    """

    shards: Mapping[str, Mapping[str, Measure]]
    day: Mapping[str, Measure]

    def of(self, column: str) -> Measure:
        """The day's measure; one that observed nothing for a column that is not there."""
        return self.day.get(column, Measure(column=column))

    @property
    def table(self) -> pa.Table:
        """A row for each shard and column, schema `SCHEMA`."""
        rows = [{"shard": name, **vars(one)} for name, columns in self.shards.items() for one in columns.values()]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


@dataclass(kw_only=True)
class Meter:
    """Watches a split (`shards.split.Watch`): rows as they are dealt, ids as they are read again.

    `seen` holds, for each shard by number, the measures of its columns; eight bytes a user of one shard are held while
    that shard's ids pass by.
    """

    contract: Contract
    seen: dict[int, dict[str, Measure]] = field(default_factory=dict)
    suspects: dict[int, np.ndarray] = field(default_factory=dict)
    _repeats: Repeats = field(default_factory=Repeats)

    def see_rows(self, rows: pa.Table, first: int, bounds: np.ndarray) -> None:
        """Rows of the shards `first`, `first` + 1, ...: shard first + i has rows[bounds[i]:bounds[i + 1]]."""
        promises: dict[str, Column] = {column.name: column for column in self.contract.columns}
        for name in self.contract.schema.names:
            if name not in rows.schema.names:
                continue
            for place, piece in enumerate(pieces_of(rows.column(name), promises.get(name), bounds)):
                shard = self.seen.setdefault(first + place, {})
                shard.setdefault(name, Measure(column=name)).add(piece)

    def see_ids(self, words: np.ndarray) -> None:
        """md5 words of ids of the shard that is being read again."""
        self._repeats.add_words(words)

    def end_shard(self, number: int) -> None:
        """All ids of that shard have been seen."""
        self.suspects[number] = self._repeats.suspects()


def measure_split(contract: Contract, folder: Path, manifest: Manifest, meter: Meter) -> DayMeasures:
    """The measures that the meter took of the split that ended in `manifest`; of files read now, if it saw none.

    A few users leave some of many shards empty, by the manifest and as measured: these are passed over.
    AccountingError where the meter saw other rows than lie on the disk.
    """
    if not meter.suspects:
        meter = _metered(contract, folder, manifest)
    shards = {}
    for number, entry in enumerate(manifest.files):
        columns = meter.seen.get(number, {})
        for found in columns.values():
            if found.rows != entry.rows:
                raise AccountingError(
                    f"{found.rows} rows of {found.column} were measured for {folder / entry.name}, "
                    f"its manifest says {entry.rows}",
                    remedy=f"run {manifest.stage} of {manifest.day} again",
                )
        if not entry.rows:
            continue
        if ID_COLUMN in columns:
            columns[ID_COLUMN].distinct = entry.rows - _repeated(folder / entry.name, meter.suspects[number])
        shards[entry.name] = columns
    return DayMeasures(shards=shards, day=_day_of(shards))


def _metered(contract: Contract, folder: Path, manifest: Manifest) -> Meter:
    """A meter that has read the files, in one streaming pass each."""
    meter = Meter(contract=contract)
    for number, entry in enumerate(manifest.files):
        path = folder / entry.name
        with open_parquet(path) as file:
            schema = file.schema_arrow
        present = [name for name in contract.schema.names if name in schema.names]
        # Ids are all different: a dictionary of them would cost more than the rest of the pass.
        text = [name for name in present if is_text(schema.field(name).type) and name != ID_COLUMN]
        for batch in iter_batches(path, columns=present, dictionary=text):
            meter.see_rows(pa.Table.from_batches([batch]), number, np.array([0, batch.num_rows]))
            if ID_COLUMN in present:
                meter.see_ids(md5_words(batch.column(ID_COLUMN).drop_null()))
        meter.end_shard(number)
    return meter


def _repeated(path: Path, suspects: np.ndarray) -> int:
    """How many rows of a file say an id again: words that occur twice are compared as text."""
    if not len(suspects):
        return 0
    ids = (batch.column(0).drop_null() for batch in iter_batches(path, columns=[ID_COLUMN]))
    return len(rows_to_drop(ids, suspects, "first"))


def _day_of(shards: Mapping[str, Mapping[str, Measure]]) -> dict[str, Measure]:
    """The day's measures by column; one that a shard with rows lacks is no column of the day."""
    parts: Sequence[Mapping[str, Measure]] = list(shards.values())
    names = dict.fromkeys(name for columns in parts for name in columns)
    total: dict[str, Measure] = {}
    for name in names:
        if all(name in columns for columns in parts):
            day = parts[0][name]
            for columns in parts[1:]:
                day = day + columns[name]
            total[name] = day
    return total
