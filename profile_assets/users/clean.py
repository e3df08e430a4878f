"""The day's rows as the contract wants them, batch by batch, every faulty row marked with its first fault.

Columns are checked over all files before the first row is given. A row is struck for the first fault in the order:
id, columns as declared, the keys in its path. Rows are never dropped here: what reads these batches keeps the good
ones and sets the others aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from profile_assets.users.batches import RawBatch, Reader
from profile_assets.users.cast import cast_column
from profile_assets.users.columns import Before, absent_columns, check_columns, extra_columns, source_columns
from profile_assets.users.contract import Contract
from profile_assets.users.faults import Fault
from profile_assets.users.ids import FloatWatch, IdWatch, cast_id
from profile_assets.users.path_keys import path_faults, require_comparable, stand_in
from profile_assets.users.readers import reader_of
from profile_assets.users.source import CsvSettings, SourceDay, SourceFile, SourceSettings

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
    """A day's source, found, its columns checked. `extra` columns are not read, `absent` ones land as nulls;
    `columns` are the source's own, each with its type; `unpacked_bytes` is about what the wanted ones take unpacked.
    """

    settings: SourceSettings
    contract: Contract
    found: SourceDay
    extra: tuple[str, ...]
    absent: tuple[str, ...]
    columns: Mapping[str, str]
    unpacked_bytes: int

    def cleaned(self) -> Iterator[Cleaned]:
        """Every row of the day, in the order of the files' names and of their rows. May be asked for again."""
        watch = IdWatch(self.contract.id)
        for file in self.found.files:
            reader = reader_of(self.settings, file, self.contract)
            floats = FloatWatch(self.contract.id, file.path)
            for raw in reader.batches(_wanted(self.contract, file)):
                source_ids = _column(raw, self.contract.id)
                _judge_ids(raw, source_ids, watch)
                floats.see(source_ids, raw.numbers)
                yield self._clean(raw, source_ids)
            floats.require_none()

    def _clean(self, raw: RawBatch, source_ids: pa.Array) -> Cleaned:
        ids = cast_id(source_ids)
        arrays = [ids.values]
        faults = _named(self.contract.id, ids.faults)
        rules = self.settings.csv if self.settings.format == "csv" else _NO_TEXT_RULES
        for column in self.contract.columns:
            cast = cast_column(_column(raw, column.name), column, rules)
            arrays.append(cast.values)
            faults += _named(column.name, cast.faults)
        faults += self._path_faults(raw)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.contract.schema)
        return Cleaned(raw=raw, rows=rows, strikes=_strikes(faults, len(rows)), reasons=tuple(f.reason for f in faults))

    def _path_faults(self, raw: RawBatch) -> list[Fault]:
        """Rows that say something else than the path that they were found under."""
        faults: list[Fault] = []
        for key, value in raw.file.keys:
            if key in raw.rows.schema.names:
                what = "day" if key == self.settings.hive_key else "value"
                faults += _named(key, path_faults(raw.rows.column(key), value, what))
        return faults


def open_day(
    settings: SourceSettings, contract: Contract, found: SourceDay, *, before: Before = lambda: None
) -> OpenDay:
    """The day, ready to be read. Raises ContractError with all that is wrong with the columns of all its files, and
    what changed since the columns that `before` gives.
    """
    schemas: dict[str, pa.Schema] = {}
    unpacked_bytes = 0
    for file in found.files:
        reader: Reader = reader_of(settings, file, contract)
        unpacked_bytes += reader.unpacked_bytes(_wanted(contract, file))
        if reader.schema is not None:
            schemas[file.path] = _with_stand_ins(reader.schema, file, contract)
            require_comparable(reader.schema, dict(file.keys), file.path)
    check_columns(schemas, contract, settings.format, before)
    _one_family(schemas, contract)
    extra = {name for schema in schemas.values() for name in extra_columns(schema, contract)}
    absent = {name for schema in schemas.values() for name in absent_columns(schema, contract)}
    return OpenDay(
        settings=settings,
        contract=contract,
        found=found,
        extra=tuple(sorted(extra)),
        absent=tuple(sorted(absent)),
        columns=source_columns(schemas.values()),
        unpacked_bytes=unpacked_bytes,
    )


def _judge_ids(raw: RawBatch, ids: pa.Array, watch: IdWatch) -> None:
    if ids.null_count < len(ids):
        first = int(np.argmax(ids.is_valid().to_numpy(zero_copy_only=False)))
        watch.see(ids.type, path=raw.file.path, row=int(raw.numbers[first]))


def _one_family(schemas: dict[str, pa.Schema], contract: Contract) -> None:
    watch = IdWatch(contract.id)
    for path, schema in schemas.items():
        watch.see(schema.field(contract.id).type, path=path, row=1)


def _with_stand_ins(schema: pa.Schema, file: SourceFile, contract: Contract) -> pa.Schema:
    """The columns of a file and those that its path stands for, which come in their declared type.

    A key that is a column of the contract but for case stands among them too, to be told like such a column.
    """
    declared = {column.name: column.type for column in contract.columns}
    folded = {name.casefold() for name in (contract.id, *declared)}
    for key, _ in file.keys:
        if key not in schema.names and key.casefold() in folded and key != contract.id:
            schema = schema.append(pa.field(key, declared.get(key, pa.null())))
    return schema


def _wanted(contract: Contract, file: SourceFile) -> list[str]:
    """The columns to read of a file: the contract's, and those that stand in its path too."""
    columns = [contract.id, *contract.names]
    return columns + [key for key, _ in file.keys if key not in columns]


def _column(raw: RawBatch, name: str) -> pa.Array:
    if name in raw.rows.schema.names:
        return raw.rows.column(name)
    keys = dict(raw.file.keys)
    return stand_in(keys[name], len(raw.rows)) if name in keys else pa.nulls(len(raw.rows))


def _named(column: str, faults: Sequence[Fault]) -> list[Fault]:
    return [Fault(reason=f"{column}: {fault.reason}", rows=fault.rows) for fault in faults]


def _strikes(faults: Sequence[Fault], rows: int) -> np.ndarray:
    strikes = np.zeros(rows, dtype=np.int32)
    for place, fault in enumerate(faults, start=1):
        is_struck = fault.rows.to_numpy(zero_copy_only=False)
        strikes[(strikes == 0) & is_struck] = place
    return strikes
