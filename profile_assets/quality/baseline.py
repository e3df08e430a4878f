"""What a day is compared with: the newest earlier published day, not more than eight days back.

That it is absent must be proven: no record and no file for any of those days. A record or a file that cannot be read,
or a record without its file, raises, and the day is not judged: it does not count as absent.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from profile_assets.errors import CorruptError
from profile_assets.storage.layout import RAW_USERS, Layout
from profile_assets.storage.published import PublishRecord, read_part_record, read_record

MAX_AGE_DAYS = 8


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An earlier published day: its rows, its share of missing values by column, the digest of its landed users."""

    day: dt.date
    rows: int
    null_rates: Mapping[str, float]
    digest: str


def find_baseline(layout: Layout, day: dt.date) -> Baseline | None:
    """The baseline of a day; None where it is proven that there is none. CorruptError where one is unreadable."""
    for age_days in range(1, MAX_AGE_DAYS + 1):
        published = _published(layout, day - dt.timedelta(days=age_days))
        if published is not None:
            return Baseline(
                day=published.day,
                rows=published.rows,
                null_rates=published.null_rates,
                digest=published.sources[RAW_USERS],
            )
    return None


def _published(layout: Layout, day: dt.date) -> PublishRecord | None:
    """What readers see of a day, by its file; the record is read as well, for what it may reveal."""
    record = read_record(layout, day)
    published = read_part_record(layout, day)
    if published is None and record is not None and record.is_offline_done:
        raise CorruptError(
            f"{layout.offline_part(day)} is gone, though its record says that {day} is published",
            remedy=f"publish {day} again, or remove {layout.publish_record(day)} if it is to stay away",
        )
    return published
