"""Golden rows: made-up users, drawn from a feature spec, whose scores travel in the bundle and are compared at load.

No real user is among them. The draws lie around each mean, with missing values, vocabulary entries and values that
no vocabulary holds, and pass through the same encoding as everybody. The same spec gives the same rows everywhere.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profile_assets.features.spec import CategoricalFeature, FeatureSpec, NumericFeature

ROWS = 256
_MISSING_RATE = 0.1
_UNSEEN_RATE = 0.1


def golden_rows(spec: FeatureSpec) -> pa.Table:
    """ROWS rows of every column of the spec: float64 and text, with nulls."""
    draw = np.random.default_rng(int(spec.digest[:16], 16))
    columns = [_numbers(feature, draw) for feature in spec.numeric] + [_texts(one, draw) for one in spec.categorical]
    return pa.table(dict(zip(spec.columns, columns, strict=True)))


def _numbers(feature: NumericFeature, draw: np.random.Generator) -> pa.Array:
    values = draw.normal(feature.mean, feature.std, ROWS)
    if feature.transform == "log1p":
        values = np.copysign(np.expm1(np.minimum(np.abs(values), 700.0)), values)  # exp(700) is still a float64
    return pa.array(values, pa.float64(), mask=draw.random(ROWS) < _MISSING_RATE)


def _texts(feature: CategoricalFeature, draw: np.random.Generator) -> pa.Array:
    unseen = "unseen"
    while unseen in feature.vocabulary:
        unseen += "?"
    choices = np.array([*feature.vocabulary, unseen], dtype=object)
    rates = np.full(len(choices), (1.0 - _UNSEEN_RATE) / max(1, len(feature.vocabulary)))
    rates[-1] = 1.0 - rates[:-1].sum()
    values = choices[draw.choice(len(choices), size=ROWS, p=rates)]
    return pa.array(values, pa.string(), mask=draw.random(ROWS) < _MISSING_RATE)
