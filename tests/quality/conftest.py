"""A profile's folder, and stages staged or committed in it as the pipeline would."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.storage.layout import QUARANTINE_FILE, RAW_USERS, USERS_FILE, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import commit, describe, seal
from profile_assets.users.quarantine import QUARANTINE, SCHEMA, key_set_of_rows


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path, name="purchase_30d")


@pytest.fixture
def day():
    return dt.date(2026, 1, 5)


@pytest.fixture
def stage(layout, day):
    """Seal tables, by file name, as a stage of the day."""

    def build(name, tables, *, day=day, **manifest):
        folder = layout.staging(name, day)
        folder.mkdir(parents=True, exist_ok=True)
        for file, table in tables.items():
            with ParquetSink(folder / file, table.schema) as sink:
                sink.write(table)
        files = tuple(describe(folder / file) for file in tables)
        described = Manifest(stage=name, day=day.isoformat(), files=files, **{"made_from": {}, **manifest})
        return seal(layout, day, described)

    return build


@pytest.fixture
def committed(layout, day, stage):
    """The same, made the day's truth; its manifest."""

    def build(name, tables, *, day=day, **manifest):
        return commit(layout, day, stage(name, tables, day=day, **manifest))

    return build


@pytest.fixture
def landed(layout, day, stage):
    """Stage a table as the day's landed users, with the sums of both and a quarantine of `aside` rows."""

    def build(table, *, aside=0, day=day, **facts):
        rows = pa.record_batch(
            {
                "reason": ["age: not int64"] * aside,
                "file": ["a.csv"] * aside,
                "row": range(1, aside + 1),
                "raw": ["{}"] * aside,
            },
            schema=SCHEMA,
        )
        folder = layout.staging(QUARANTINE, day)
        folder.mkdir(parents=True, exist_ok=True)
        with ParquetSink(folder / QUARANTINE_FILE, SCHEMA) as sink:
            sink.write(rows)
        told = {
            "read": table.num_rows + aside,
            "quarantined": aside,
            "quarantined_keys": key_set_of_rows(rows).to_json(),
            **facts,
        }
        return stage(RAW_USERS, {USERS_FILE: table}, day=day, facts=told)

    return build
