"""What readers see, as an asset of its own: unpartitioned, made by nobody's run, judged by what is on disk.

Freshness sits here, so that a backfill of an old day, which materializes something just now, cannot make the table
look fresh; and so that the daily runs leave it alone.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
from collections.abc import Mapping

import dagster as dg

from profile_assets.orchestration.keys import PUBLISHED, key_of
from profile_assets.orchestration.shell import working
from profile_assets.profile import Deployment
from profile_assets.quality.freshness import Judgement
from profile_assets.storage.layout import EXPORT
from profile_assets.storage.withdrawals import withdrawn_days


def published_scores(deployment: Deployment) -> dg.AssetSpec:
    """The table as its readers know it."""
    return dg.AssetSpec(
        key_of(deployment, PUBLISHED),
        deps=[key_of(deployment, EXPORT)],
        group_name=deployment.profile.name,
        kinds={"parquet"},
        description="The published table: one row per user and day. Its freshness is judged from what is on disk.",
        metadata={"path": dg.MetadataValue.path(str(deployment.layout.offline))},
    )


def freshness_check(deployment: Deployment) -> dg.AssetChecksDefinition:
    """Is every due day published, in the table and in the lookups?"""

    @dg.asset_check(
        asset=key_of(deployment, PUBLISHED),
        name="fresh",
        description="Every due day is published, under a verdict that let it through; judged from what readers see.",
    )
    def fresh(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with working(context, deployment):
            now = dt.datetime.now(dt.UTC)
            state = deployment.watch.judge(now)
            withdrawn = withdrawn_days(deployment.layout)
        return dg.AssetCheckResult(
            passed=not state.is_alarming, description=sentence(state), metadata=_metadata(state, withdrawn, now)
        )

    return fresh


def sentence(state: Judgement) -> str:
    """The state in words."""
    if state.beyond:
        return f"{state.state}: {state.beyond}"
    if state.state == "not_started":
        return "not started: no day is due yet"
    table = state.table
    newest = f"newest published day {table.newest_published or 'none'}, newest due day {table.newest_due}"
    return (
        f"{state.state}: {newest}"
        + "".join(
            f"; {len(one.missing)} due days are missing {target}, the oldest {one.missing[0]}"
            for target, one in state.targets.items()
            if one.missing
        )
        + (f"; {state.standing.trouble}" if state.standing.trouble else "")
    )


def _metadata(state: Judgement, withdrawn: Mapping[dt.date, str], now: dt.datetime) -> dict[str, str | int]:
    return {
        "state": state.state,
        "newest_due": str(state.table.newest_due or "none"),
        "newest_published": str(state.table.newest_published or "none"),
        "missing": ", ".join(str(day) for day in state.missing[:40]) or "none",
        "num_missing": len(state.missing),
        **{f"missing_{target}": len(one.missing) for target, one in state.targets.items()},
        "late_sources": "; ".join(f"{day}: its source {why}" for day, why in state.late.items()) or "none",
        "not_counted": "; ".join(f"{day} {why}" for day, why in state.standing.unproven.items()) or "none",
        "lookups": state.standing.trouble or "as the records say",
        "withdrawn": "; ".join(f"{day}: {why}" for day, why in withdrawn.items()) or "none",
        "asked_at": now.isoformat(timespec="seconds"),
    }
