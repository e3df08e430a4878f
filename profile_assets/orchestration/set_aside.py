"""A day that fails for its rows shows them all the same: an observation with the table of reasons and examples."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator

import dagster as dg

from profile_assets.errors import CorruptError, DataError
from profile_assets.orchestration.pictures import quarantine_table
from profile_assets.storage.layout import QUARANTINE_FILE, Layout


@contextlib.contextmanager
def rows_set_aside_shown(context: dg.AssetExecutionContext, layout: Layout, day: dt.date) -> Iterator[None]:
    """Where the landing fails over its rows, record what was set aside before the error goes on."""
    try:
        yield
    except DataError as error:
        aside = layout.staging("quarantine", day) / QUARANTINE_FILE
        with contextlib.suppress(CorruptError):  # the landing stopped before that file was whole: no table then
            metadata = {"quarantine_reasons": quarantine_table(aside), "rows": dg.MetadataValue.path(str(aside))}
            context.log_event(
                dg.AssetObservation(
                    context.asset_key, partition=day.isoformat(), description=error.what, metadata=metadata
                )
            )
        raise
