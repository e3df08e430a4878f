"""Lookups of single users: found, missing or expired, with the day and the bundle that the score is of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from profile_assets.errors import DataError
from profile_assets.feature_store.buckets import Record
from profile_assets.feature_store.versions import OnlineStore, Version


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


def lookup(store: OnlineStore, ids: Sequence[str], *, now: dt.datetime) -> dict[str, Answer]:
    """An answer for each id, all from one version. DataError where nothing is live."""
    read = store.read([user for user in ids if _is_unicode(user)])
    if read is None:
        raise DataError(f"nothing is live in {store.where()}", remedy="publish a day first")
    version, records = read
    return {user: _answer(user, records.get(user), version, now) for user in ids}


def _answer(user: str, record: Record | None, version: Version, now: dt.datetime) -> Answer:
    told: dict[str, Any] = {"bundle_id": version.bundle_id, "day": version.day, "expires_at": version.expires_at}
    if record is None:
        return Answer(user_id=user, state="missing", **told)
    if now >= version.expires_at:
        return Answer(user_id=user, state="expired", stale_score=record.score, route=record.route, **told)
    return Answer(user_id=user, state="found", score=record.score, route=record.route, **told)


def _is_unicode(user: str) -> bool:
    """Whether the text can be written at all: half a surrogate pair is nobody's id."""
    try:
        user.encode()
    except UnicodeEncodeError:
        return False
    return True
