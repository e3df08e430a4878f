"""The canary: who it scores on a day, what the day shows of both groups, and the check that compares them.

A day scored by today's stable bundle has a canary where the registry names one; a day that asks for another model has
none. The check reads what readers see, in a job of its own: labels come to be known long after their day.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import pyarrow.compute as pc

from profile_assets.errors import BundleError
from profile_assets.models.choosing import STABLE, Chosen
from profile_assets.models.registry import CANARY, read_pointer, require_bundle
from profile_assets.orchestration import pictures
from profile_assets.orchestration.jobs import after_night, check_job
from profile_assets.orchestration.keys import PUBLISHED, canary_job_name, key_of
from profile_assets.orchestration.shell import working
from profile_assets.profile import Deployment
from profile_assets.quality.drift import psi
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.records import Manifest
from profile_assets.storage.routes import ROUTE_COLUMN
from profile_assets.users.labels import is_known, read_labels

if TYPE_CHECKING:  # these come with torch, or are slow; and what define_asset_job gives has no public name
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from profile_assets.quality.two_groups import Comparison, Side
    from profile_assets.scoring.canary import Canary

CHECK = "canary"
_HOURS_AFTER = 4
_BINS = 32


def canary_of(deployment: Deployment, chosen: Chosen) -> "Canary | None":
    """Who else scores a day of that model; None without a canary. BundleError where its bundle is gone."""
    pointer = read_pointer(deployment.layout, CANARY)
    if pointer is None or chosen.asked != STABLE or pointer.bundle_id == chosen.bundle_id:
        return None
    from profile_assets.scoring.canary import Canary

    try:
        require_bundle(deployment.layout, pointer.bundle_id)
    except BundleError as error:
        raise BundleError(
            f"the canary: {error.what}", remedy='restore it, or: profile-assets models canary --withdraw --why "..."'
        ) from error
    settings = deployment.profile.canary
    path = deployment.layout.bundle(pointer.bundle_id)
    return Canary(bundle_path=path, share=settings.share, salt=settings.salt)


def canary_metadata(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """What the scoring shows of both groups; nothing without a canary."""
    told = manifest.facts.get("canary")
    if told is None:
        return {}
    counts, sums = np.zeros((2, _BINS), np.int64), np.zeros(2)
    for entry in manifest.files:
        for batch in iter_batches(folder / entry.name, columns=["score", ROUTE_COLUMN]):
            group = pc.equal(batch.column(1).cast("string"), CANARY).to_numpy(zero_copy_only=False).astype(np.int64)
            scores = batch.column(0).to_numpy()
            places = np.minimum((scores * np.float32(_BINS)).astype(np.int64), _BINS - 1)
            counts += np.bincount(group * _BINS + places, minlength=2 * _BINS).reshape(2, _BINS)
            sums += np.bincount(group, weights=scores, minlength=2)
    rows = counts.sum(axis=1)
    means = np.divide(sums, rows, out=np.full(2, np.nan), where=rows > 0)
    shown: dict[str, Any] = {
        "canary_bundle_id": told["bundle_id"],
        "canary_share": told["share"],
        "canary_rows": int(rows[1]),
        "canary_scores": pictures.histogram(counts[1].tolist(), low=0.0, high=1.0),
        "stable_scores": pictures.histogram(counts[0].tolist(), low=0.0, high=1.0),
    }
    if rows.all():
        shown |= {"canary_mean": float(means[1]), "stable_mean": float(means[0])}
        shown["canary_psi"] = psi(counts[1], counts[0])
    return shown | ({"carried_from": f"none: {manifest.notes['why_full']}"} if "why_full" in manifest.notes else {})


def canary_check(deployment: Deployment) -> dg.AssetChecksDefinition:
    """Are the canary's users scored about as the others, and as well?"""

    @dg.asset_check(
        asset=key_of(deployment, PUBLISHED),
        name=CHECK,
        description="The canary's users beside the others: their number, their scores, and how well these did.",
    )
    def canary(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with working(context, deployment):
            found = compare_canary(deployment, deployment.today())
        if not found:
            return dg.AssetCheckResult(passed=True, description="no published day has a share of the canary's")
        problems = [f"{one.day}: {problem}" for one in found for problem in one.problems]
        return dg.AssetCheckResult(
            passed=not problems,
            severity=dg.AssetCheckSeverity.WARN,
            description="; ".join(problems) + _REMEDY if problems else f"{_sentence(found[0])}",
            metadata=_metadata(found),
        )

    return canary


_REMEDY = ' -> to withdraw it: profile-assets models canary --withdraw --why "..."'


def compare_canary(deployment: Deployment, today: dt.date) -> "list[Comparison]":
    """The newest published day that the canary took part in, and the newest one whose labels are known, if another."""
    from profile_assets.quality.two_groups import compare_groups, days_with

    pointer = read_pointer(deployment.layout, CANARY)
    records = [] if pointer is None else list(days_with(deployment.layout, pointer.bundle_id))
    known = [record for record in records if _is_matured(deployment, record.day, today)]
    rise = deployment.promotion.max_log_loss_rise
    return [
        compare_groups(
            deployment.layout,
            record,
            deployment.rules.limits,
            labels=read_labels(deployment.labels, record.day) if record in known else None,
            max_loss_rise=rise,
        )
        for record in {record.day: record for record in (*records[:1], *known[:1])}.values()
    ]


def _is_matured(deployment: Deployment, day: dt.date, today: dt.date) -> bool:
    if deployment.profile.labels is None or not is_known(day, deployment.labels.horizon_days, today):
        return False
    from profile_assets.users.taking import sighted

    return sighted(deployment.labels.source, day, dt.datetime.now(dt.UTC)).waits_for is None


def _sentence(found: "Comparison") -> str:
    return (
        f"{found.day}: {found.canary.rows:,} users of {found.canary.bundle_id}, mean {found.canary.mean:.4f}, beside "
        f"{found.stable.rows:,} of {found.stable.bundle_id}, mean {found.stable.mean:.4f}; PSI {found.psi:.4f}"
    )


def _metadata(found: "list[Comparison]") -> dict[str, Any]:
    rows = [
        dg.TableRecord(_row(one.day, name, side))
        for one in found
        for name, side in (("stable", one.stable), ("canary", one.canary))
    ]
    newest = found[0]
    return {
        "day": newest.day.isoformat(),
        "share": newest.share,
        "psi": newest.psi,
        "groups": dg.MetadataValue.table(rows),
        "stable_scores": pictures.histogram(newest.stable.counts, low=0, high=1),
        "canary_scores": pictures.histogram(newest.canary.counts, low=0, high=1),
    }


def _row(day: dt.date, name: str, side: "Side") -> dict[str, str | int | float]:
    figures = {key: getattr(side, key) for key in ("mean", "rate", "auc", "log_loss")}
    told = {key: "—" if value is None else round(value, 6) for key, value in figures.items()}
    return {
        "day": day.isoformat(),
        "group": name,
        "bundle": side.bundle_id,
        "rows": side.rows,
        "labelled": side.labelled,
        **told,
    }


def canary_job(deployment: Deployment) -> "UnresolvedAssetJobDefinition":
    """The check alone."""
    return check_job(deployment, canary_job_name(deployment), CHECK, "Holds the canary's users against the others.")


def canary_daily(deployment: Deployment, job: "UnresolvedAssetJobDefinition") -> dg.ScheduleDefinition:
    """Once a day, while there is a canary."""
    return after_night(
        deployment,
        job,
        f"{deployment.profile.name}_canary_daily",
        hours=_HOURS_AFTER,
        unless=lambda: "there is no canary" if read_pointer(deployment.layout, CANARY) is None else None,
        description="Compares the canary's users with the others, while there is a canary.",
    )
