"""Labels: what each user of a day did in the `horizon_days` after it, and from which day on that is known.

The labels of a day are a table of their own, found and read like the users'. They are learned from, so nothing is set
aside: one row that is not a user with a finite number fails the day by name.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.users.clean import Cleaned, open_day
from profile_assets.users.contract import Column, Contract
from profile_assets.users.readers import reader_of
from profile_assets.users.repeats import Repeats, rows_to_drop
from profile_assets.users.source import CsvSettings, Format, SourceDay, SourceSettings, SqlSettings
from profile_assets.users.taking import taken

LABEL_SCHEMA = pa.schema([(ID_COLUMN, pa.string()), ("label", pa.float32())])


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """Where labels lie. `path` as for users; `key` is the id column, `column` the label (a number or a boolean)."""

    path: str
    format: Format
    key: str
    column: str
    horizon_days: int
    hive_key: str = "day"
    csv: CsvSettings = field(default_factory=CsvSettings)
    s3_endpoint: str | None = None
    sql: SqlSettings | None = None

    @property
    def source(self) -> SourceSettings:
        return SourceSettings(
            path=self.path,
            format=self.format,
            hive_key=self.hive_key,
            csv=self.csv,
            s3_endpoint=self.s3_endpoint,
            sql=self.sql,
        )

    @property
    def contract(self) -> Contract:
        """Of a table that is not looked at yet: a label is a number, unless its column turns out to be boolean."""
        return Contract(id=self.key, columns=(Column(name=self.column, type=pa.float64()),))


def is_known(day: dt.date, horizon_days: int, today: dt.date) -> bool:
    """Whether the labels of `day` are complete: its last day, `day + horizon_days`, is over."""
    return today > day + dt.timedelta(days=horizon_days)


def read_labels(settings: LabelSettings, day: dt.date) -> pa.Table:
    """The labels of a day: `user_id` string, `label` float32, each user once, no nulls.

    Raises SourceError, ContractError; DataError naming the first row that is no label.
    """
    repeats = Repeats()
    batches = []
    with taken(settings.source, settings.contract, day) as found:
        opened = open_day(settings.source, _contract(settings, found), found)
        for cleaned in opened.cleaned():
            _require_clean(cleaned, settings, day)
            repeats.add(cleaned.rows.column(0))
            batches.append(_as_labels(cleaned.rows))
    table = pa.Table.from_batches(batches, LABEL_SCHEMA)
    _require_once(table, repeats, settings, day)
    return table


def _contract(settings: LabelSettings, found: SourceDay) -> Contract:
    """The label's column as it stands in the first file: a boolean, or else a number."""
    probe = settings.contract
    schema = reader_of(settings.source, found.files[0], probe).schema
    if (
        schema is None
        or settings.column not in schema.names
        or not pa.types.is_boolean(schema.field(settings.column).type)
    ):
        return probe
    return Contract(id=settings.key, columns=(Column(name=settings.column, type=pa.bool_()),))


def _as_labels(rows: pa.RecordBatch) -> pa.RecordBatch:
    label = rows.column(1).cast(pa.float32(), safe=False)
    return pa.RecordBatch.from_arrays([rows.column(0), label], schema=LABEL_SCHEMA)


def _require_clean(cleaned: Cleaned, settings: LabelSettings, day: dt.date) -> None:
    is_missing = pc.is_null(cleaned.rows.column(1), nan_is_null=True).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero((cleaned.strikes != 0) | is_missing)
    if cleaned.raw.broken:
        row, reason = cleaned.raw.broken[0].number, cleaned.raw.broken[0].reason
    elif len(bad):
        strike = int(cleaned.strikes[bad[0]])
        row, reason = int(cleaned.raw.numbers[bad[0]]), cleaned.reasons[strike - 1] if strike else "no label"
    else:
        return
    raise DataError(
        f"{cleaned.raw.file.path}: row {row} of the labels of {day} is none: {reason}",
        remedy=f"correct the column {settings.column!r} in that file, then train again",
    )


def _require_once(table: pa.Table, repeats: Repeats, settings: LabelSettings, day: dt.date) -> None:
    suspects = repeats.suspects()
    if not len(suspects):
        return
    drop = rows_to_drop(table.column(0).chunks, suspects, "first")
    if len(drop):
        user = table.column(0)[int(drop[0])].as_py()
        raise DataError(
            f"the labels of {day} have user {user!r} more than once ({len(drop)} rows too many)",
            remedy=f"write one row a user to {settings.path}, then train again",
        )
