"""A published day that was taken back: the record that says so, which is written before anything is removed.

Where that record was lost, the day's publish record is evidence enough.

It names what was withdrawn: the publication's moment, and the digests that were published. While the file of that very
publication is still there (the withdrawal died half way), whoever touches the day next completes it. The same data is
not published again until the withdrawal is undone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profile_assets.errors import CorruptError
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import OFFLINE, PublishRecord, read_record
from profile_assets.storage.records import FORMAT, days_recorded, read_json


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """`published_at` is the moment of the publication taken back, `at` that of taking it back, both in UTC.

    `bundle_id`: whose scores they were; None in withdrawals that were written before it was kept.
    """

    day: dt.date
    why: str
    by: str
    at: dt.datetime
    published_at: dt.datetime
    sources: Mapping[str, str]
    bundle_id: str | None
    is_undone: bool = False

    def names(self, record: PublishRecord) -> bool:
        """Whether that publication is the one that was withdrawn."""
        offline = record.targets.get(OFFLINE)
        return offline is not None and offline.at == self.published_at and dict(record.sources) == dict(self.sources)

    def to_json(self) -> dict[str, Any]:
        moments = {"at": self.at.isoformat(), "published_at": self.published_at.isoformat()}
        return {"format": FORMAT, **dataclasses.asdict(self), "day": self.day.isoformat(), **moments}


def read_withdrawal(layout: Layout, day: dt.date) -> Withdrawal | None:
    """The day's last withdrawal; None where it was never withdrawn."""
    path = layout.withdrawal(day)
    if not path.exists():
        return _told_by_record(layout, day)
    value = read_json(path)
    try:
        found = Withdrawal(
            day=dt.date.fromisoformat(value["day"]),
            why=value["why"],
            by=value["by"],
            at=dt.datetime.fromisoformat(value["at"]),
            published_at=dt.datetime.fromisoformat(value["published_at"]),
            sources=dict(value["sources"]),
            bundle_id=value.get("bundle_id"),
            is_undone=bool(value["is_undone"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(f"{path} lacks or bends {error}", remedy=f"withdraw {day} again, or remove it") from error
    if found.day != day:
        raise CorruptError(f"{path} speaks of {found.day}", remedy=f"withdraw {day} again, or remove it")
    return found


def _told_by_record(layout: Layout, day: dt.date) -> Withdrawal | None:
    """What the publish record says of a withdrawal whose own record is gone."""
    try:
        told = read_record(layout, day)
    except CorruptError:
        return None
    offline = None if told is None else told.targets.get(OFFLINE)
    if told is None or offline is None or offline.state != "withdrawn":
        return None
    return Withdrawal(
        day=day,
        why="not known, for the record of the withdrawal is lost",
        by="somebody",
        at=offline.at,
        published_at=offline.at,
        sources=told.sources,
        bundle_id=told.bundle_id,
    )


def write_withdrawal(layout: Layout, withdrawal: Withdrawal) -> None:
    """Make this the withdrawal of its day."""
    atomic.write_json(layout.withdrawal(withdrawal.day), withdrawal.to_json(), staging=layout.scratch("records"))


def withdrawal_of(layout: Layout, published: PublishRecord | None) -> Withdrawal | None:
    """The withdrawal that holds for this publication; None for one that stands."""
    found = None if published is None else read_withdrawal(layout, published.day)
    return found if found and published and not found.is_undone and found.names(published) else None


def withdrawn_days(layout: Layout) -> dict[dt.date, str]:
    """The days that were taken back and not published again since, with the reason, oldest first."""
    found = {day: read_withdrawal(layout, day) for day in days_recorded(layout.withdrawals)}
    return {day: one.why for day, one in found.items() if one is not None and _stands(layout, one)}


def _stands(layout: Layout, withdrawal: Withdrawal) -> bool:
    published = read_record(layout, withdrawal.day)
    is_replaced = published is not None and published.is_offline_done and not withdrawal.names(published)
    return not withdrawal.is_undone and not is_replaced
