"""What a bundle makes of one row: its features before and after encoding, its score, and what each feature did.

What a feature did is the score less the score with that feature alone set to its missing value. These effects do not
add up to the score, and where features say the same thing each of them alone seems to do little.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa

from profile_assets.features.encode import Encoded, encode
from profile_assets.features.spec import MISSING_SLOT, UNKNOWN_SLOT, FeatureSpec
from profile_assets.scoring.scorer import scorer_for
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.users.quarantine import hashed

EXPLANATION = "effect: the score less the score with this feature alone set to its missing value; effects do not add up"
TOLERANCE = 1e-6
HIDDEN = "hidden"


def features_of(row: pa.Table, spec: FeatureSpec, personal: frozenset[str]) -> list[dict[str, Any]]:
    """One entry a feature, in the network's order, of a table with a single row. Personal values are hashed."""
    encoded = encode(row, spec)
    entries = [*_numbers(encoded, spec), *_categories(encoded, spec)]
    for entry in entries:
        value = row.column(entry["feature"])[0].as_py()
        is_hidden = entry["feature"] in personal
        entry["value"] = hashed(value) if is_hidden else value
        entry["encoded"] = HIDDEN if is_hidden else entry["encoded"]
    return entries


def _numbers(encoded: Encoded, spec: FeatureSpec) -> list[dict[str, Any]]:
    return [
        {
            "feature": one.name,
            "kind": "number",
            "value": None,
            "encoded": float(encoded.numeric[place, 0]),
            "is_missing": bool(encoded.numeric[len(spec.numeric) + place, 0]),
            "is_unknown": False,
        }
        for place, one in enumerate(spec.numeric)
    ]


def _categories(encoded: Encoded, spec: FeatureSpec) -> list[dict[str, Any]]:
    slots = [int(slot) for slot in encoded.categories[:, 0]] if spec.categorical else []
    return [
        {
            "feature": one.name,
            "kind": "category",
            "value": None,
            "encoded": slot,
            "is_missing": slot == MISSING_SLOT,
            "is_unknown": slot == UNKNOWN_SLOT,
        }
        for one, slot in zip(spec.categorical, slots, strict=True)
    ]


def scored_again(
    row: pa.Table, bundle_path: Path, settings: ScoringSettings, published: float | None
) -> dict[str, Any]:
    """The row's score here and now beside the published one, and the effect of each feature, largest first."""
    scorer = scorer_for(bundle_path, dataclasses.replace(settings, workers=1))
    spec = scorer.bundle.spec
    scores = [float(score) for score in scorer.score(encode(_without_each(row, spec), spec))]
    effects: list[dict[str, Any]] = [
        {"feature": name, "score_without": without, "effect": scores[0] - without}
        for name, without in zip(spec.columns, scores[1:], strict=True)
    ]
    effects.sort(key=lambda one: -abs(one["effect"]))
    apart = None if published is None else abs(scores[0] - published)
    agreement = "not published"
    if apart is not None:
        agreement = "equal" if apart == 0 else f"within {TOLERANCE:g}" if apart <= TOLERANCE else "differs"
    return {
        "score": scores[0],
        "published": published,
        "difference": apart,
        "agreement": agreement,
        "effects": effects,
        "effects_are": EXPLANATION,
    }


def _without_each(row: pa.Table, spec: FeatureSpec) -> pa.Table:
    """The row as it is, then once for each feature with that one missing, in the order of the spec."""
    count = 1 + len(spec.columns)
    columns = {}
    for place, name in enumerate(spec.columns, start=1):
        chunk = row.column(name).combine_chunks()
        plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
        kept = [plain, pa.nulls(1, plain.type)]
        columns[name] = pa.concat_arrays(kept).take(pa.array([int(number == place) for number in range(count)]))
    return pa.table(columns)
