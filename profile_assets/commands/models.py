"""The commands about bundles and the registry: list, show, promote, roll back, the history, import."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from profile_assets.errors import BundleError
from profile_assets.models import registry
from profile_assets.models.bundle_files import METRICS, PROVENANCE, SIGNATURE, SNAPSHOT, SPEC, check_metrics, read_part
from profile_assets.profile import open_deployment
from profile_assets.storage.layout import Layout

console = Console(highlight=False)
_FIGURES = ("day", "role", "rows", "positives", "auc", "baseline_auc", "log_loss", "baseline_log_loss", "ece")


def list_bundles(*, as_json: bool) -> None:
    """Every finished bundle, newest first, damaged ones named as such."""
    layout = open_deployment().layout
    names = _names(layout)
    rows = [_row(layout, bundle_id, names.get(bundle_id, [])) for bundle_id in registry.bundle_ids(layout)]
    rows.sort(key=lambda row: row["made_at"], reverse=True)
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(title=str(layout.models), title_justify="left")
    for column in ("bundle", "made", "points to it", "figures on", "AUC", "log loss", "commit"):
        table.add_column(column, justify="right" if column in ("AUC", "log loss") else "left")
    for row in rows:
        figures = [_number(row["auc"]), _number(row["log_loss"])]
        told = [row["bundle_id"], row["made_at"][:16].replace("T", " "), ", ".join(row["pointers"])]
        table.add_row(*told, row["day"] or row["problem"] or "", *figures, (row["commit"] or "")[:10])
    console.print(table)


def show(bundle: str, *, as_json: bool) -> None:
    """One bundle, by its id or by what points to it."""
    layout = open_deployment().layout
    bundle_id = _resolve(layout, bundle)
    path = layout.bundle(bundle_id)
    parts = {
        name.removesuffix(".json"): read_part(path, name) for name in (SIGNATURE, SPEC, METRICS, SNAPSHOT, PROVENANCE)
    }
    if as_json:
        print(json.dumps({"bundle_id": bundle_id, "pointers": _names(layout).get(bundle_id, []), **parts}))
        return
    provenance, signature = parts["provenance"], parts["signature"]
    console.print(f"[bold]{bundle_id}[/] {', '.join(_names(layout).get(bundle_id, [])) or 'nothing points to it'}")
    console.print(f"network {json.dumps(signature['network'])}, calibration {json.dumps(signature.get('calibration'))}")
    code = provenance.get("code", {})
    console.print(
        f"code {code.get('commit')}{' (changed since)' if code.get('is_dirty') else ''}, {_environment(provenance)}"
    )
    _show_table("figures", parts["metrics"].get("days", []), _FIGURES)
    spec = parts["feature_spec"]
    features = [{"feature": one["name"], "kind": "number", **one} for one in spec["numeric"]]
    features += [
        {"feature": one["name"], "kind": "category", "values": len(one["vocabulary"]), "missing": one["missing"]}
        for one in spec["categorical"]
    ]
    _show_table("features", features, ("feature", "kind", "transform", "mean", "std", "values", "missing"))
    _show_table("data", parts["data_snapshot"].get("days") or [], ("day", "role", "rows", "positives"))


def promote(bundle: str, to: str, *, why: str, by: str, is_forced: bool) -> None:
    """Review a bundle and move the pointer; everything that was found is shown first."""
    from profile_assets.models import promotion

    deployment = open_deployment()
    layout = deployment.layout
    bundle = _resolve(layout, bundle)
    if to != registry.STABLE:
        change = promotion.try_beside(layout, deployment.contract, to, bundle, by=by, why=why)
        return _tell(change, bundle, to)
    with console.status("looking at the bundle ..."):
        found = promotion.review(layout, deployment.contract, bundle, deployment.promotion, grounds=deployment.grounds)
    for one in found.findings:
        mark = "[green]✓[/]" if one.lets_through else "[red]✗[/]"
        console.print(f"{mark} {one.told}")
    return _tell(promotion.promote(layout, found, by=by, why=why, is_forced=is_forced), bundle, to)


def try_beside(name: str, bundle: str | None, *, withdraws: bool, why: str, by: str) -> None:
    """Make a bundle canary or shadow, or let there be none."""
    from profile_assets.models import promotion

    deployment = open_deployment()
    if withdraws == (bundle is not None):
        raise BundleError("give a bundle's id or --withdraw", remedy=f"profile-assets models {name} --help")
    if bundle is None:
        change = registry.set_pointer(deployment.layout, name, None, by=by, why=why, action="withdraw")
        before = "there was none" if change is None else f"it was {change.before}"
        console.print(f"[green]✓[/] there is no {name}; {before}")
    else:
        change = promotion.try_beside(deployment.layout, deployment.contract, name, bundle, by=by, why=why)
        _tell(change, bundle, name)


def rollback(*, why: str, by: str) -> None:
    """The bundle before."""
    from profile_assets.models import promotion

    deployment = open_deployment()
    change = promotion.roll_back(deployment.layout, deployment.contract, by=by, why=why)
    console.print(f"[green]✓[/] stable went back from {change.before} to {change.bundle_id}")


def set_aside_log(*, why: str, by: str) -> None:
    """A log that begins anew."""
    from profile_assets.models.log_set_aside import set_log_aside

    aside = set_log_aside(open_deployment().layout, by=by, why=why)
    console.print(f"[green]✓[/] the damaged log lies in {aside}; a new one tells of it", soft_wrap=True)


def history(at: dt.datetime | None, *, as_json: bool) -> None:
    """The log; or what was stable at a moment."""
    layout = open_deployment().layout
    if at is not None:
        pointer = registry.stable_at(layout, at)
        if as_json:
            print(json.dumps(None if pointer is None else asdict(pointer)))
        else:
            told = "nothing" if pointer is None else f"{pointer.bundle_id}, since {pointer.since}: {pointer.why}"
            console.print(f"stable at {at.isoformat(timespec='seconds')}: {told}")
        return
    changes = registry.history(layout)
    if as_json:
        print(json.dumps([change.to_json() for change in changes]))
        return
    rows = [{**change.to_json(), "since": change.since[:19].replace("T", " ")} for change in changes]
    _show_table(str(layout.registry_log), rows, ("since", "pointer", "before", "bundle_id", "action", "by", "why"))


def import_weights(folder: Path) -> None:
    """A bundle from elsewhere; stable if there is none."""
    from profile_assets.models.importing import import_bundle

    deployment = open_deployment()
    bundle_id = import_bundle(folder.absolute(), deployment.contract, deployment.layout)
    is_stable = registry.set_first_stable(deployment.layout, bundle_id, f"imported from {folder.name}", by="import")
    console.print(f"[green]✓[/] {bundle_id}{', which is stable' if is_stable else ''}")
    if not is_stable:
        console.print(f'to score with it: profile-assets models promote {bundle_id} --why "..."')


def _tell(change: registry.Change | None, bundle: str, name: str) -> None:
    if change is None:
        console.print(f"[green]✓[/] {bundle} is {name} already")
    else:
        console.print(f"[green]✓[/] {name} is {change.bundle_id}, before it {change.before or 'nothing'}")


def _names(layout: Layout) -> dict[str, list[str]]:
    """What points to each bundle."""
    names: dict[str, list[str]] = {}
    for name in registry.POINTERS:
        pointer = registry.read_pointer(layout, name)
        if pointer is not None:
            names.setdefault(pointer.bundle_id, []).append(name)
    return names


def _row(layout: Layout, bundle_id: str, pointers: list[str]) -> dict[str, Any]:
    path = layout.bundle(bundle_id)
    row: dict[str, Any] = {"bundle_id": bundle_id, "made_at": "", "pointers": pointers, "problem": None}
    try:
        metrics, provenance = read_part(path, METRICS), read_part(path, PROVENANCE)
        check_metrics(metrics)
    except BundleError as error:
        return {**row, "problem": error.what, "day": None, "auc": None, "log_loss": None, "commit": None}
    last = (metrics.get("days") or [{}])[-1]
    commit = (provenance.get("code") or {}).get("commit")
    row["made_at"] = provenance.get("made_at") or ""
    return {**row, **{name: last.get(name) for name in ("day", "auc", "log_loss")}, "commit": commit}


def _resolve(layout: Layout, bundle: str) -> str:
    if bundle in registry.POINTERS:
        pointer = registry.read_pointer(layout, bundle)
        if pointer is None:
            raise BundleError(f"no bundle of {layout.name} is {bundle}", remedy="profile-assets models list")
        bundle = pointer.bundle_id
    registry.require_bundle(layout, bundle)
    return bundle


def _environment(provenance: Mapping[str, Any]) -> str:
    names = ("python", "torch", "device", "cpu_capability", "image_digest")
    return ", ".join(f"{name} {provenance[name]}" for name in names if provenance.get(name))


_IDS = ("bundle_id", "before")  # to be copied
_PIPE = 240


def _show_table(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, no_wrap=column in _IDS, overflow="fold")
    for row in rows:
        table.add_row(*(_number(row.get(column)) for column in columns))
    # Into a pipe everything goes whole: nobody can widen it.
    (console if console.is_terminal else Console(highlight=False, width=_PIPE)).print(table)


def _number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)
