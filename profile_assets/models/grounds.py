"""What a model is made from and judged by: a profile's users and labels, and which of their days are matured.

A day is matured once its labels are known: `horizon_days` after it are over. A day later than that is never read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from profile_assets.models.snapshot import join_labels
from profile_assets.users.contract import Contract
from profile_assets.users.labels import LabelSettings, is_known, read_labels
from profile_assets.users.land import clean_batches
from profile_assets.users.source import SourceSettings
from profile_assets.users.taking import sighted, source_digest

LOOKED_BACK_DAYS = 400
_ONE_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """`today` is the date in the profile's zone: labels that are known by then count."""

    source: SourceSettings
    contract: Contract
    labels: LabelSettings
    today: dt.date

    def is_matured(self, day: dt.date) -> bool:
        return is_known(day, self.labels.horizon_days, self.today)


def labelled_users(grounds: Grounds, day: dt.date) -> pa.Table:
    """The users of a day that have a label, with it as the last column `label`, as they would land."""
    users = pa.Table.from_batches(clean_batches(grounds.source, grounds.contract, day), schema=grounds.contract.schema)
    return join_labels(day, users, read_labels(grounds.labels, day))


def digests_of(grounds: Grounds, day: dt.date) -> dict[str, str]:
    """The digests of the two sources of a day."""
    return {
        "users": source_digest(grounds.source, grounds.contract, day),
        "labels": source_digest(grounds.labels.source, grounds.labels.contract, day),
    }


def newest_matured_day(
    grounds: Grounds, *, first: dt.date | None = None, apart_from: Collection[dt.date] = ()
) -> dt.date | None:
    """The newest matured day, from `first` on, whose users and labels are both there; None where there is none.

    Without `first`, LOOKED_BACK_DAYS are looked at.
    """
    newest = grounds.today - (grounds.labels.horizon_days + 1) * _ONE_DAY
    oldest = newest - LOOKED_BACK_DAYS * _ONE_DAY if first is None else first
    for back in range((newest - oldest).days + 1):
        day = newest - back * _ONE_DAY
        if day not in apart_from and _is_there(grounds, day):
            return day
    return None


def _is_there(grounds: Grounds, day: dt.date) -> bool:
    now = dt.datetime.now(dt.UTC)
    return all(sighted(settings, day, now).waits_for is None for settings in (grounds.labels.source, grounds.source))
