"""What a materialization of `model_bundle` shows: figures by day, reliability, scores, features, data, code."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from profile_assets.features.spec import FeatureSpec
from profile_assets.orchestration.pictures import Metadata, histogram

if TYPE_CHECKING:  # it comes with torch
    from profile_assets.models.making import Made

_SIDE = 120
_FIGURES = ("day", "role", "rows", "auc", "baseline_auc", "log_loss", "baseline_log_loss", "ece", "baseline_ece")


def model_metadata(made: Made) -> Metadata:
    """The model that was made. Pictures are of the last measured day, the one that is nearest to what it will see."""
    code, last = made.provenance["code"], made.metrics["days"][-1]
    return {
        "bundle_id": made.bundle_id,
        "is_stable": made.is_stable,
        "rows": made.rows,
        "auc": last["auc"] if last["auc"] is not None else "—",
        "log_loss": last["log_loss"],
        "ece": last["ece"],
        "metrics": metric_table(made.metrics),
        "reliability": reliability_picture(last["reliability"], last["day"]),
        "scores": histogram(last["scores"], low=0.0, high=1.0),
        "features": feature_table(made.spec, last["unknown"]),
        "data_snapshot": snapshot_table(made.data_snapshot),
        "commit": code["commit"] or "none",
        "is_dirty": "unknown" if code["is_dirty"] is None else code["is_dirty"],
        "cpu_capability": made.provenance["cpu_capability"],
        "torch": made.provenance["torch"],
    }


def metric_table(metrics: Mapping[str, Any]) -> dg.MetadataValue:
    """One row a measured day: the network beside logistic regression."""
    return _table([{name: _rounded(day[name]) for name in _FIGURES} for day in metrics["days"]])


def feature_table(spec: FeatureSpec, unknown: Mapping[str, int]) -> dg.MetadataValue:
    """One row a feature, in the network's order; `unknown` counts rows with a value that training never saw."""
    numbers = [
        {
            "feature": one.name,
            "kind": "number",
            "transform": one.transform,
            "missing": "mean, and an indicator",
            "mean": _rounded(one.mean),
            "deviation": _rounded(one.std),
            "values": "—",
            "unknown": "—",
        }
        for one in spec.numeric
    ]
    categories = [
        {
            "feature": one.name,
            "kind": "category",
            "transform": "none",
            "missing": "a slot of its own",
            "mean": "—",
            "deviation": "—",
            "values": str(len(one.vocabulary)),
            "unknown": str(unknown.get(one.name, 0)),
        }
        for one in spec.categorical
    ]
    return _table([*numbers, *categories])


def snapshot_table(data_snapshot: Mapping[str, Any]) -> dg.MetadataValue:
    """One row a day that the model was made from or measured on, with the digests of its two sources."""
    sources = data_snapshot.get("sources", {})
    return _table(
        [
            {
                "day": entry["day"],
                "role": entry["role"],
                "rows": entry["rows"],
                "positives": entry["positives"],
                **{name: sources.get(entry["day"], {}).get(name, "—")[:12] for name in ("users", "labels")},
            }
            for entry in data_snapshot["days"]
        ]
    )


def reliability_picture(curve: Sequence[Mapping[str, Any]], day: str) -> dg.MetadataValue:
    """Share that came true over mean score; on the grey diagonal scores are probabilities. Axes end at the largest."""
    top = max([1e-9, *(max(one["mean_score"], one["rate"]) for one in curve)])
    points = [(round(one["mean_score"] / top * _SIDE), _SIDE - round(one["rate"] / top * _SIDE)) for one in curve]
    line = "L".join(f"{x} {y}" for x, y in points)
    dots = "".join(f"M{x} {y}h0" for x, y in points)
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-3 -3 {_SIDE + 6} {_SIDE + 6}' width='{_SIDE}'>"
        f"<g fill='none' stroke='#46a'><path d='M0 {_SIDE}L{_SIDE} 0' stroke='#bbb'/><path d='M{line}'/>"
        f"<path d='{dots}' stroke-width='5' stroke-linecap='round'/></g></svg>"
    )
    picture = base64.b64encode(svg.encode()).decode()
    return dg.MetadataValue.md(f"![](data:image/svg+xml;base64,{picture}) 0 to {top:.3g}, {day}")


def _table(rows: Sequence[Mapping[str, Any]]) -> dg.MetadataValue:
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows])


def _rounded(value: Any) -> Any:
    """What a cell can hold: floats in four places, a figure that there is not as a dash."""
    return round(value, 4) if isinstance(value, float) else "—" if value is None else value
