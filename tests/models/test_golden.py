from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.features.encode import encode
from profile_assets.features.spec import CategoricalFeature, FeatureSpec, NumericFeature
from profile_assets.models.golden import ROWS, golden_rows


def test_golden_rows_are_the_same_for_the_same_spec(spec: FeatureSpec) -> None:
    assert golden_rows(spec).equals(golden_rows(FeatureSpec.from_json(spec.to_json())))


def test_golden_rows_reach_missing_unseen_and_known_values_of_every_feature(spec: FeatureSpec) -> None:
    rows = golden_rows(spec)
    encoded = encode(rows, spec)
    assert rows.column_names == list(spec.columns)
    assert encoded.rows == ROWS
    assert all(0 < column.null_count < ROWS / 2 for column in rows.columns)
    assert all(0 < count < ROWS / 2 for count in encoded.unknown.values())
    assert (encoded.categories.max(axis=1) >= 2).all()


def test_golden_rows_lie_around_the_mean_and_are_no_real_users(spec: FeatureSpec, users: pa.Table) -> None:
    rows = golden_rows(spec)
    assert abs(pc.mean(rows["age"]).as_py() - spec.numeric[0].mean) < spec.numeric[0].std / 3
    assert not set(rows["age"].drop_null().to_pylist()) & set(users["age"].drop_null().to_pylist())


def test_a_vocabulary_that_is_empty_or_holds_the_unseen_value_is_no_trouble() -> None:
    spec = FeatureSpec(
        numeric=(NumericFeature(name="n", transform="log1p", mean=600.0, std=200.0),),
        categorical=(
            CategoricalFeature(name="none", vocabulary=()),
            CategoricalFeature(name="taken", vocabulary=("unseen", "unseen?")),
        ),
    )
    unknown = encode(
        golden_rows(FeatureSpec(numeric=(), categorical=spec.categorical)),
        FeatureSpec(numeric=(), categorical=spec.categorical),
    ).unknown
    assert unknown["none"] > ROWS / 2
    assert 0 < unknown["taken"] < ROWS / 4
