"""A landed day of any users."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.storage import atomic
from profile_assets.storage.layout import RAW_USERS, USERS_FILE, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import commit, describe, seal

Land = Callable[[pa.Table], Manifest]


@pytest.fixture
def day() -> dt.date:
    return dt.date(2026, 1, 5)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path, name="purchase")


@pytest.fixture
def land(layout: Layout, day: dt.date) -> Land:
    """Commits a table as the day's raw_users."""

    def land(table: pa.Table) -> Manifest:
        folder = atomic.empty_folder(layout.staging(RAW_USERS, day))
        with ParquetSink(folder / USERS_FILE, table.schema) as sink:
            sink.write(table)
        files = (describe(folder / USERS_FILE),)
        manifest = Manifest(stage=RAW_USERS, day=day.isoformat(), files=files, made_from={})
        return commit(layout, day, seal(layout, day, manifest))

    return land
