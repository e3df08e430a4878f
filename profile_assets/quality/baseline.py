"""What a day is compared with: the newest earlier published day, and the newest of the same weekday.

The first lies not more than eight days back, the second 7 to 28. That one is absent must be proven: no record and no
file for any of those days. A record or a file that cannot be read, or a record without its file, raises, and the day
is not judged: it does not count as absent. A day that was withdrawn is no baseline.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from profile_assets.errors import CorruptError
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, Layout
from profile_assets.storage.published import PublishRecord, read_part_record, read_record
from profile_assets.storage.withdrawals import withdrawal_of

MAX_AGE_DAYS = 8
WEEKDAY_AGES_DAYS = (7, 14, 21, 28)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An earlier published day: its rows, its share of missing values by column, the digests of its landed users and
    of its scores, and the bundle that gave them; `canary_id`, the one that gave those of a share, if one did.
    """

    day: dt.date
    rows: int
    null_rates: Mapping[str, float]
    digest: str
    scores_digest: str = ""
    bundle_id: str = ""
    canary_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """The two days that a day is compared with; None where it is proven that there is none."""

    newest: Baseline | None = None
    weekday: Baseline | None = None


def find_baselines(layout: Layout, day: dt.date) -> Baselines:
    """The baselines of a day. CorruptError where one is unreadable."""
    return Baselines(
        newest=_newest(layout, day, range(1, MAX_AGE_DAYS + 1)), weekday=_newest(layout, day, WEEKDAY_AGES_DAYS)
    )


def _newest(layout: Layout, day: dt.date, ages_days: Iterable[int]) -> Baseline | None:
    """The first of the days so many days back that is published."""
    for age_days in ages_days:
        published = _published(layout, day - dt.timedelta(days=age_days))
        if published is not None:
            return Baseline(
                day=published.day,
                rows=published.rows,
                null_rates=published.null_rates,
                digest=published.sources[RAW_USERS],
                scores_digest=published.sources.get(USER_SCORES, ""),
                bundle_id=published.bundle_id,
                canary_id="" if published.canary is None else published.canary["bundle_id"],
            )
    return None


def _published(layout: Layout, day: dt.date) -> PublishRecord | None:
    """What readers see of a day, by its file; the record is read as well, for what it may reveal."""
    record = read_record(layout, day)
    published = read_part_record(layout, day)
    withdrawn = withdrawal_of(layout, published or record)
    if withdrawn is not None:
        return None
    if published is None and record is not None and record.is_offline_done:
        raise CorruptError(
            f"{layout.offline_part(day)} is gone, though its record says that {day} is published",
            remedy=f"publish {day} again, or withdraw it if it is to stay away: "
            f'`profile-assets withdraw {day} --why "..."`',
        )
    return published
