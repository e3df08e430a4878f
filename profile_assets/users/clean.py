"""The day's rows as the contract wants them, batch by batch, every faulty row marked with its first fault.

Columns are checked over all files before the first row is given. A row is struck for the first fault in the order:
id, columns as declared, the day in its path. Rows are never dropped here: what reads these batches keeps the good
ones and sets the others aside.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError
from profile_assets.storage.parquet import is_text
from profile_assets.users.batches import RawBatch, Reader
from profile_assets.users.cast import cast_column
from profile_assets.users.columns import absent_columns, check_columns, extra_columns
from profile_assets.users.contract import Contract
from profile_assets.users.faults import Fault
from profile_assets.users.ids import IdWatch, cast_id, require_not_from_float
from profile_assets.users.readers import reader_of
from profile_assets.users.source import CsvSettings, SourceDay, SourceSettings

_NO_TEXT_RULES = CsvSettings(null_values=())


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A raw batch and its rows in the landed schema. `strikes`: int (rows,), 0 for a good row, else 1 + the place
    of its reason in `reasons`. Struck rows stand in `rows` too, with nulls where a value could not be cast.
    """

    raw: RawBatch
    rows: pa.RecordBatch
    strikes: np.ndarray
    reasons: tuple[str, ...]

    @property
    def good(self) -> pa.RecordBatch:
        return self.rows if not self.strikes.any() else self.rows.filter(pa.array(self.strikes == 0))

    def also_struck(self, rows: np.ndarray, reason: str) -> Cleaned:
        """With these row positions struck as well."""
        strikes = self.strikes.copy()
        strikes[rows] = len(self.reasons) + 1
        return Cleaned(raw=self.raw, rows=self.rows, strikes=strikes, reasons=(*self.reasons, reason))


@dataclass(frozen=True, kw_only=True)
class OpenDay:
    """A day's source, found, its columns checked. `extra` columns are not read, `absent` ones land as nulls."""

    settings: SourceSettings
    contract: Contract
    found: SourceDay
    extra: tuple[str, ...]
    absent: tuple[str, ...]

    def cleaned(self) -> Iterator[Cleaned]:
        """Every row of the day, in the order of the files' names and of their rows. May be asked for again."""
        watch = IdWatch(self.contract.id)
        for file in self.found.files:
            reader = reader_of(self.settings, file, self.contract)
            for raw in reader.batches(_wanted(self.settings, self.contract, file.path)):
                yield self._clean(raw, watch)

    def _clean(self, raw: RawBatch, watch: IdWatch) -> Cleaned:
        source_ids = _column(raw.rows, self.contract.id)
        self._judge_ids(raw, source_ids, watch)
        ids = cast_id(source_ids)
        arrays = [ids.values]
        faults = _named(self.contract.id, ids.faults)
        rules = self.settings.csv if self.settings.format == "csv" else _NO_TEXT_RULES
        for column in self.contract.columns:
            cast = cast_column(_column(raw.rows, column.name), column, rules)
            arrays.append(cast.values)
            faults += _named(column.name, cast.faults)
        faults += self._day_faults(raw)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.contract.schema)
        return Cleaned(raw=raw, rows=rows, strikes=_strikes(faults, len(rows)), reasons=tuple(f.reason for f in faults))

    def _judge_ids(self, raw: RawBatch, ids: pa.Array, watch: IdWatch) -> None:
        if ids.null_count < len(ids):
            first = int(np.argmax(ids.is_valid().to_numpy(zero_copy_only=False)))
            watch.see(ids.type, path=raw.file.path, row=int(raw.numbers[first]))
        if self.settings.format == "csv":
            require_not_from_float(ids, column=self.contract.id, path=raw.file.path)

    def _day_faults(self, raw: RawBatch) -> list[Fault]:
        """Rows whose own day is not the one in the path that they were found under."""
        key = self.settings.hive_key
        day = _day_in_path(raw.file.path, key)
        if day is None or key not in raw.rows.schema.names:
            return []
        text = pc.utf8_slice_codeunits(raw.rows.column(key).cast(pa.string()), 0, 10)
        is_other = pc.fill_null(pc.not_equal(text, day), True)
        return _named(
            key, (Fault(reason="not the day in its path", rows=is_other),) if pc.any(is_other).as_py() else ()
        )


def open_day(settings: SourceSettings, contract: Contract, found: SourceDay) -> OpenDay:
    """The day, ready to be read. Raises ContractError with all that is wrong with the columns of all its files."""
    schemas: dict[str, pa.Schema] = {}
    for file in found.files:
        reader: Reader = reader_of(settings, file, contract)
        if reader.schema is not None:
            schemas[file.path] = reader.schema
    check_columns(schemas, contract, settings.format)
    _one_family(schemas, contract)
    _require_comparable_days(schemas, settings)
    extra = {name for schema in schemas.values() for name in extra_columns(schema, contract)}
    absent = {name for schema in schemas.values() for name in absent_columns(schema, contract)}
    return OpenDay(
        settings=settings, contract=contract, found=found, extra=tuple(sorted(extra)), absent=tuple(sorted(absent))
    )


def _one_family(schemas: dict[str, pa.Schema], contract: Contract) -> None:
    watch = IdWatch(contract.id)
    for path, schema in schemas.items():
        watch.see(schema.field(contract.id).type, path=path, row=1)


def _require_comparable_days(schemas: dict[str, pa.Schema], settings: SourceSettings) -> None:
    """The day that stands in rows too must be a day there: text, a date or a time."""
    key = settings.hive_key
    for path, schema in schemas.items():
        if key not in schema.names or _day_in_path(path, key) is None:
            continue
        kind = schema.field(key).type
        if not (is_text(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind)):
            raise ContractError(
                f"{path}: column {key!r} is {kind}, and cannot be compared with the day in the file's path",
                remedy="write it as a date or as text, YYYY-MM-DD, or leave it out of the files",
            )


def _wanted(settings: SourceSettings, contract: Contract, path: str) -> list[str]:
    """The columns to read of a file: the contract's, and the day where it can be compared with the path's."""
    columns = [contract.id, *contract.names]
    has_day = _day_in_path(path, settings.hive_key) is not None and settings.hive_key not in columns
    return [*columns, settings.hive_key] if has_day else columns


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    return rows.column(name) if name in rows.schema.names else pa.nulls(len(rows))


def _named(column: str, faults: Sequence[Fault]) -> list[Fault]:
    return [Fault(reason=f"{column}: {fault.reason}", rows=fault.rows) for fault in faults]


def _strikes(faults: Sequence[Fault], rows: int) -> np.ndarray:
    strikes = np.zeros(rows, dtype=np.int32)
    for place, fault in enumerate(faults, start=1):
        is_struck = fault.rows.to_numpy(zero_copy_only=False)
        strikes[(strikes == 0) & is_struck] = place
    return strikes


def _day_in_path(path: str, key: str) -> str | None:
    for part in reversed(PurePosixPath(path).parts):
        if re.fullmatch(rf"{re.escape(key)}=\d{{4}}-\d{{2}}-\d{{2}}", part):
            return dt.date.fromisoformat(part.partition("=")[2]).isoformat()
    return None
