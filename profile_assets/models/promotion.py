"""Promotion: what a bundle has to show before it becomes stable, and the moves that follow.

    loads            every digest, strict weights, golden rows
    fits_contract    the profile's contract holds every column that the bundle takes, in a type that can feed it
    compared         on the newest matured day that neither was trained on, not worse than stable by more than a limit

The first bundle has nothing to be compared with. A comparison that could not be made is no pass; it alone, and its
result, can be overridden, by somebody and for a reason, which the log keeps with what was found.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from profile_assets.errors import BundleError, GateError, PermanentError
from profile_assets.features.columns import can_hold
from profile_assets.features.encode import encode
from profile_assets.models import registry
from profile_assets.models.bundle import Bundle, load_bundle
from profile_assets.models.bundle_files import SNAPSHOT, read_part
from profile_assets.models.grounds import Grounds, labelled_users, newest_matured_day
from profile_assets.models.metrics import auc, bootstrap_differences, log_loss
from profile_assets.models.report import logits_of
from profile_assets.models.settings import PromotionLimits as PromotionLimits
from profile_assets.models.snapshot import LABEL, days_fitted_to, days_learned_from
from profile_assets.storage.layout import Layout
from profile_assets.users.contract import Contract

LOADS, FITS, COMPARED = "loads", "fits_contract", "compared"
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one look at a candidate found. `exempt`: there is nothing to compare with."""

    check: str
    result: Literal["pass", "fail", "not_evaluated", "exempt"]
    detail: str
    numbers: dict[str, Any]

    @property
    def told(self) -> str:
        return f"{self.check} ({self.result}): {self.detail}"

    @property
    def lets_through(self) -> bool:
        return self.result in ("pass", "exempt")


@dataclass(frozen=True, kw_only=True)
class Review:
    """Everything that was found about a candidate beside what was stable (None: nothing was)."""

    candidate: str
    stable: str | None
    findings: tuple[Finding, ...]

    @property
    def stopping(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.lets_through)

    def to_json(self) -> dict[str, Any]:
        return {"stable": self.stable, "findings": [asdict(finding) for finding in self.findings]}


def review(
    layout: Layout, contract: Contract, candidate: str, limits: PromotionLimits, *, grounds: Grounds | None
) -> Review:
    """Look at a candidate. `grounds` is None for a profile without labels, which can compare nothing."""
    registry.require_bundle(layout, candidate)
    stable = registry.last_stable(layout)
    try:
        bundle = load_bundle(layout.bundle(candidate))
    except BundleError as error:
        return Review(candidate=candidate, stable=stable, findings=(_finding(LOADS, "fail", error.what),))
    problems = contract_problems(bundle, contract)
    findings = [
        _finding(LOADS, "pass", "every digest, the weights and the golden rows are right"),
        _finding(FITS, "fail" if problems else "pass", "; ".join(problems) or "the contract holds every input"),
    ]
    if not problems:
        findings.append(_compared(layout, bundle, stable, limits, grounds))
    return Review(candidate=candidate, stable=stable, findings=tuple(findings))


def promote(
    layout: Layout, found: Review, *, by: str, why: str, is_forced: bool = False, now: dt.datetime | None = None
) -> registry.Change | None:
    """Make the candidate of a review stable; None where it is. GateError naming everything that speaks against it.

    `is_forced` overrides the comparison, and nothing else.
    """
    stopping = [one for one in found.stopping if not (is_forced and one.check == COMPARED)]
    if stopping:
        told = "; ".join(one.told for one in stopping)
        is_comparison = all(one.check == COMPARED for one in stopping)
        remedy = (
            'train a better one; or, if you know better, promote it with --force --why "..."'
            if is_comparison
            else "mend that, train or import the model anew"
        )
        raise GateError(f"{found.candidate} is not promoted: {told}", remedy=f"stable is unchanged; {remedy}")
    evidence = {**found.to_json(), "is_forced": bool(found.stopping)}
    change = registry.set_pointer(
        layout,
        registry.STABLE,
        found.candidate,
        by=by,
        why=why,
        action="forced promote" if found.stopping else "promote",
        evidence=evidence,
        expected=found.stable,
        now=now,
    )
    _leave_trials(layout, found.candidate, by=by, now=now)
    return change


def _leave_trials(layout: Layout, bundle_id: str, *, by: str, now: dt.datetime | None) -> None:
    """What is stable is tried beside nothing any more."""
    for name in (registry.CANARY, registry.SHADOW):
        pointer = registry.read_pointer(layout, name)
        if pointer is not None and pointer.bundle_id == bundle_id:
            registry.set_pointer(layout, name, None, by=by, why="it became stable", action="promote", now=now)


def try_beside(
    layout: Layout, contract: Contract, name: str, bundle_id: str, *, by: str, why: str
) -> registry.Change | None:
    """Make a bundle canary or shadow: it has to load and to fit the contract."""
    if name not in (registry.CANARY, registry.SHADOW):
        raise BundleError(f"no bundle is promoted to {name!r}", remedy="name stable, canary or shadow")
    registry.require_bundle(layout, bundle_id)
    if name == registry.CANARY and bundle_id == registry.last_stable(layout):
        raise BundleError(
            f"{bundle_id} is stable: as its own canary it would be held against itself",
            remedy="name another bundle: profile-assets models list",
        )
    _require_usable(layout, contract, bundle_id)
    return registry.set_pointer(layout, name, bundle_id, by=by, why=why)


def roll_back(layout: Layout, contract: Contract, *, by: str, why: str) -> registry.Change:
    """Make `previous` stable again. BundleError where it can no longer score: a rollback must not break the night."""
    previous = registry.read_pointer(layout, registry.PREVIOUS)
    if previous is not None:
        registry.require_bundle(layout, previous.bundle_id)
        _require_usable(layout, contract, previous.bundle_id)
    return registry.rollback(layout, by=by, why=why)


def contract_problems(bundle: Bundle, contract: Contract) -> list[str]:
    """Why the profile's table could not feed the bundle, column by column."""
    kinds = {column.name: column.type for column in contract.columns}
    wanted = [(one.name, "numeric") for one in bundle.spec.numeric]
    wanted += [(one.name, "categorical") for one in bundle.spec.categorical]
    problems = []
    for name, kind in wanted:
        if name not in kinds:
            problems.append(f"the contract has no column {name}")
        elif not can_hold(kinds[name], "numeric" if kind == "numeric" else "categorical"):
            problems.append(f"{name} is {kinds[name]} in the contract, the bundle takes it as {kind}")
    return problems


def _require_usable(layout: Layout, contract: Contract, bundle_id: str) -> None:
    problems = contract_problems(load_bundle(layout.bundle(bundle_id)), contract)
    if problems:
        raise BundleError(
            f"{bundle_id} does not fit the contract: {'; '.join(problems)}",
            remedy="nothing was changed; bring the columns back, or choose another bundle",
        )


def _compared(
    layout: Layout, candidate: Bundle, stable: str | None, limits: PromotionLimits, grounds: Grounds | None
) -> Finding:
    """The candidate beside stable on the newest matured day that neither was trained on."""
    if stable is None:
        return _finding(COMPARED, "exempt", "it is the first bundle: there is nothing to compare it with")
    if stable == candidate.id:
        return _finding(COMPARED, "exempt", "it is stable already")
    if grounds is None:
        return _finding(COMPARED, "not_evaluated", "the profile has no labels to compare by")
    try:
        other = load_bundle(layout.bundle(stable))
        day = _unseen_day(grounds, candidate, other)
        if day is None:
            return _finding(COMPARED, "not_evaluated", "there is no matured day that neither bundle was trained on")
        table = labelled_users(grounds, day)
    except PermanentError as error:
        return _finding(COMPARED, "not_evaluated", error.what)
    return _judged(candidate, other, day, table, limits)


def _unseen_day(grounds: Grounds, *bundles: Bundle) -> dt.date | None:
    """The newest matured day whose labels look at nothing that either bundle was shown."""
    snapshots = [read_part(bundle.path, SNAPSHOT) for bundle in bundles]
    fitted = {day for snapshot in snapshots for day in days_fitted_to(snapshot)}
    learned = {day for snapshot in snapshots for day in days_learned_from(snapshot)}
    clear = max(fitted) + dt.timedelta(days=grounds.labels.horizon_days) if fitted else None
    return newest_matured_day(grounds, first=clear, apart_from=learned)


def _judged(candidate: Bundle, stable: Bundle, day: dt.date, table: pa.Table, limits: PromotionLimits) -> Finding:
    labels = table.column(LABEL).to_numpy().astype(np.float64)
    if len(labels) < limits.min_rows or len(np.unique(labels)) < 2:
        why = f"{len(labels)} labelled users of {day}, {int(labels.sum())} with label 1, make no comparison"
        return _finding(COMPARED, "not_evaluated", why)
    ours, theirs = (logits_of(bundle.network, encode(table, bundle.spec)) for bundle in (candidate, stable))
    by_auc, by_loss = bootstrap_differences(ours, theirs, labels, seed=_SEED)
    loss, other_loss = log_loss(ours, labels), log_loss(theirs, labels)
    area, other_area = auc(ours, labels) or 0.0, auc(theirs, labels) or 0.0
    rise, drop = loss / other_loss - 1, other_area - area
    is_fine = rise <= limits.max_log_loss_rise and drop <= limits.max_auc_drop  # false for NaN
    detail = (
        f"on {day} log loss {loss:.4f} beside {other_loss:.4f} ({rise:+.2%}, limit {limits.max_log_loss_rise:+.2%}), "
        f"AUC {area:.4f} beside {other_area:.4f} ({-drop:+.4f}, limit {-limits.max_auc_drop:+.4f})"
    )
    return _finding(
        COMPARED,
        "pass" if is_fine else "fail",
        detail,
        day=day.isoformat(),
        rows=len(labels),
        log_loss=loss,
        stable_log_loss=other_loss,
        auc=area,
        stable_auc=other_area,
        log_loss_difference=asdict(by_loss),
        auc_difference=None if by_auc is None else asdict(by_auc),
    )


def _finding(
    check: str, result: Literal["pass", "fail", "not_evaluated", "exempt"], detail: str, **numbers: Any
) -> Finding:
    return Finding(check=check, result=result, detail=detail, numbers=numbers)
