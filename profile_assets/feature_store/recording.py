"""What is to be said of a day that is about to be published: that its sums close, and its record."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from profile_assets.errors import AccountingError
from profile_assets.storage.layout import ROWS, USER_SCORES, USER_SHARDS
from profile_assets.storage.published import OFFLINE, PublishRecord, TargetState
from profile_assets.storage.records import Manifest
from profile_assets.storage.verdicts import Verdict

Manifests = Mapping[str, Manifest]


def require_closed_sums(manifests: Manifests, day: dt.date) -> None:
    broken = list(_broken_links(manifests))
    if broken:
        raise AccountingError(
            f"{day} is not to be published: {'; '.join(broken)}", remedy=f"run {day} again from the first stage named"
        )


def _broken_links(manifests: Manifests) -> Iterator[str]:
    """Each stage must hold exactly the users of the one before, by count and digest, and be made from it."""
    for before, after in itertools.pairwise(ROWS):
        source, made = manifests[before], manifests[after]
        if made.made_from.get(before) != source.digest:
            yield f"{after} was made from another version of {before}"
        if made.keys != source.keys:
            yield f"{after} holds {made.rows} rows and {before} {source.rows}, or they are not the same users"


def record_of(manifests: Manifests, sources: Mapping[str, str], verdict: Verdict, at: dt.datetime) -> PublishRecord:
    scores = manifests[USER_SCORES]
    return PublishRecord(
        day=verdict.day,
        rows=scores.rows,
        keys=scores.keys,
        verdict_digest=verdict.digest,
        sources=sources,
        bundle_id=scores.facts["bundle_id"],
        null_rates=_null_rates(verdict),
        targets={OFFLINE: TargetState(state="done", at=at)},
        canary=_canary(scores),
    )


def _canary(scores: Manifest) -> dict[str, Any] | None:
    """Of the bundle that scored a share of the users, if one did, what readers need to tell these apart."""
    told = scores.facts.get("canary")
    return None if told is None else {name: told[name] for name in ("bundle_id", "share", "salt", "rows")}


def _null_rates(verdict: Verdict) -> dict[str, float]:
    """The share of missing values by column over the day, as the gate of the shards observed it."""
    outcome = verdict.stages[USER_SHARDS].outcome("null_rates")
    rows: tuple[Mapping[str, Any], ...] = () if outcome is None else outcome.table
    return {row["column"]: row["observed"] for row in rows if row["shard"] == "day"}
