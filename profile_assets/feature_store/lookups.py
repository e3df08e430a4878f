"""Lookups of single users: found, missing or expired, with the day and the bundle that the score is of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from profile_assets.errors import DataError
from profile_assets.feature_store.buckets import Record
from profile_assets.feature_store.columns import checked_ids
from profile_assets.feature_store.versions import OnlineStore, Version
from profile_assets.storage.days import as_utc
from profile_assets.storage.routes import CANARY


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One lookup. `score` is set only if found; an expired value is `stale_score`, for whoever wants that one."""

    user_id: str
    state: Literal["found", "missing", "expired"]
    score: float | None = None
    stale_score: float | None = None
    route: str | None = None
    bundle_id: str
    day: dt.date
    expires_at: dt.datetime


def lookup(store: OnlineStore, ids: Collection[str], *, now: dt.datetime) -> dict[str, Answer]:
    """An answer for each id, all from one version. DataError where nothing is live, or an id is no text."""
    moment = as_utc(now)
    read = store.read(checked_ids(ids))
    if read is None:
        raise DataError(
            f"nothing is live in {store.where()}", remedy="bring a published day there: profile-assets publish DAY"
        )
    version, records = read
    return {user: _answer(user, records.get(user), version, moment) for user in ids}


def _answer(user: str, record: Record | None, version: Version, now: dt.datetime) -> Answer:
    is_canary = record is not None and record.route == CANARY
    bundle_id = version.canary_id if is_canary else version.bundle_id
    told: dict[str, Any] = {"bundle_id": bundle_id, "day": version.day, "expires_at": version.expires_at}
    if record is None:
        return Answer(user_id=user, state="missing", **told)
    if now >= version.expires_at:
        return Answer(user_id=user, state="expired", stale_score=record.score, route=record.route, **told)
    return Answer(user_id=user, state="found", score=record.score, route=record.route, **told)
