"""The table as Delta Lake: the audited file of a day is moved in under a new name, then one transaction makes it count.

The data file is the very one that was audited, page checksums and footer included; the log entry that adds it and
removes the day's old one is the commit, and it carries the publish record as metadata. Older states stay readable by
version or moment until the table is vacuumed. A data file whose transaction never came about belongs to no version.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from profile_assets.storage.atomic import locked, replace_file, unique_name
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import open_parquet
from profile_assets.storage.parts import (
    PARTITION_COLUMN,
    day_predicate,
    days_of,
    delta_errors,
    delta_table,
    part_of,
    require_deltalake,
)
from profile_assets.storage.published import FOOTER_KEY, PublishRecord

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction


class DeltaLake:
    """See `offline.OfflineStore`. Writers of different days take turns, so that no commit is refused."""

    def __init__(self, layout: Layout) -> None:
        require_deltalake()
        self.path = layout.offline
        self._layout = layout
        self._lock = layout.shared_lock("offline")

    def part(self, day: dt.date, *, known_at: dt.datetime | None = None) -> Path | None:
        return part_of(self._layout, day, known_at=known_at)

    def days(self, *, known_at: dt.datetime | None = None) -> list[dt.date]:
        return days_of(self._layout, known_at=known_at)

    def replace(self, staged: Path, record: PublishRecord) -> None:
        with open_parquet(staged) as file:
            schema = file.schema_arrow.remove_metadata().append(pa.field(PARTITION_COLUMN, pa.date32()))
        folder = f"{PARTITION_COLUMN}={record.day.isoformat()}"
        final = self.path / folder / f"{unique_name('part')}.parquet"
        with locked(self._lock, what=f"the table {self.path}"), delta_errors(self.path):
            table = delta_table(self.path) or self._create(schema)
            replace_file(staged, final)
            self._commit(table, _added(final, f"{folder}/{final.name}", record), schema, record)

    def remove(self, day: dt.date) -> None:
        with locked(self._lock, what=f"the table {self.path}"), delta_errors(self.path):
            table = delta_table(self.path)
            if table is not None:
                table.delete(day_predicate(day))

    def _create(self, schema: pa.Schema) -> DeltaTable:
        from deltalake import DeltaTable, Schema

        return DeltaTable.create(str(self.path), Schema.from_arrow(schema), partition_by=[PARTITION_COLUMN])

    def _commit(self, table: DeltaTable, added: AddAction, schema: pa.Schema, record: PublishRecord) -> None:
        """Add the day's file and drop its old ones."""
        from deltalake import CommitProperties, Schema

        table.create_write_transaction(
            [added],
            "overwrite",
            _widened(table.schema(), Schema.from_arrow(schema)),
            [PARTITION_COLUMN],
            [(PARTITION_COLUMN, "=", record.day.isoformat())],
            commit_properties=CommitProperties(custom_metadata={FOOTER_KEY: json.dumps(record.to_json())}),
        )


def _added(path: Path, name: str, record: PublishRecord) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(
        path=name,
        size=path.stat().st_size,
        partition_values={PARTITION_COLUMN: record.day.isoformat()},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": record.rows}),
    )


def _widened(known: Schema, new: Schema) -> Schema:
    """The table's columns with those of the new file: a column that came or went leaves older days readable."""
    from deltalake import Schema

    fields = {field.name: field for field in known.fields} | {field.name: field for field in new.fields}
    partition = fields.pop(PARTITION_COLUMN)
    return Schema([*fields.values(), partition])
