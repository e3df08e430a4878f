"""What the scoring of an incremental day shows in the UI: how many were carried, from when, why the others moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from profile_assets.storage.records import Manifest

POINTLESS_FROM = 0.95
"""A feature that moves for so many users a day leaves next to nobody to be carried."""


def carrying_metadata(manifest: Manifest) -> dict[str, Any]:
    """Nothing for a day that was scored in full mode."""
    counts: Mapping[str, Any] = manifest.facts.get("carrying", {})
    if not counts:
        return {}
    notes = manifest.notes["carrying"]
    shown = {
        "carried_from": counts["from"] or f"none, scored in full: {notes['why_full']}",
        "carried_share": round(counts["carried"] / manifest.rows, 6) if manifest.rows else 0.0,
        **{f"users_{name}": counts[name] for name in ("carried", "scored", "new", "gone")},
    }
    if notes["looked_at"]:
        shown["features_moved"] = _moved_table(notes["moved"], notes["looked_at"])
    pointless = pointless_features(manifest)
    return shown | ({"carrying_is_pointless": _advice(pointless)} if pointless else {})


def tell_of_carrying(context: dg.AssetExecutionContext, manifest: Manifest) -> None:
    """The same in the run's log; a warning where nobody can be carried."""
    counts: Mapping[str, Any] = manifest.facts.get("carrying", {})
    if not counts:
        return
    if counts["from"] is None:
        context.log.info(f"scored in full, nothing to carry from: {manifest.notes['carrying']['why_full']}")
    else:
        told = ", ".join(f"{counts[name]:,} {name}" for name in ("carried", "scored", "new", "gone"))
        context.log.info(f"carried from {counts['from']}: {told}")
    if pointless := pointless_features(manifest):
        context.log.warning(_advice(pointless))


def pointless_features(manifest: Manifest) -> list[str]:
    """The features that move for about every user every day, as far as the sample tells."""
    notes = manifest.notes.get("carrying", {"looked_at": 0, "moved": {}})
    least = POINTLESS_FROM * notes["looked_at"]
    return [name for name, moved in notes["moved"].items() if notes["looked_at"] and moved >= least]


def _advice(names: list[str]) -> str:
    return (
        f"{', '.join(names)} moved for {POINTLESS_FROM:.0%} of the users or more -> nobody can be carried: give the "
        'model bands of it (0 to 7 days, 8 to 30, ...) in place of days, or set scoring.mode to "full"'
    )


def _moved_table(moved: Mapping[str, int], looked_at: int) -> dg.MetadataValue:
    ranked = sorted(moved.items(), key=lambda pair: -pair[1])
    return dg.MetadataValue.table(
        [
            dg.TableRecord({"feature": name, "moved": count, "of": looked_at, "share": round(count / looked_at, 4)})
            for name, count in ranked
        ]
    )
