"""The published table as Python reads it. Nothing here is needed to read it: the table is plain Parquet.

A day is read through one open file, so that a reader has the old day or the new one, never a mix.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import corrupt_errors, iter_batches, open_parquet
from profile_assets.storage.published import published_days
from profile_assets.storage.stages import ID_COLUMN


def read_day(layout: Layout, day: dt.date) -> pa.Table:
    """All published rows of a day. Raises DataError where the day is not published."""
    path = layout.offline_part(day)
    _require_published(layout, day)
    with corrupt_errors(path), open_parquet(path) as file:
        return file.read()


def newest_day(layout: Layout) -> dt.date | None:
    """The newest published day, by date and not by when it was published; None where nothing is published."""
    return max(published_days(layout), default=None)


def lookup(layout: Layout, user_id: str, day: dt.date | None = None) -> dict[str, Any] | None:
    """The published row of a user on a day, by default the newest; None for a user who is not in it."""
    day = day or newest_day(layout)
    if day is None:
        raise DataError(f"nothing of {layout.name} is published", remedy="publish a day first")
    _require_published(layout, day)
    for batch in iter_batches(layout.offline_part(day)):
        place = pc.index(batch.column(ID_COLUMN), user_id).as_py()
        if place >= 0:
            return {"day": day, **batch.slice(place, 1).to_pylist()[0]}
    return None


def _require_published(layout: Layout, day: dt.date) -> None:
    if not layout.offline_part(day).exists():
        raise DataError(f"{day} of {layout.name} is not published", remedy=f"publish {day} first")
