"""A dictionary is looked up once while it is the newest; another one in its place is another one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.features.encode import encode
from profile_assets.features.recent import Recent
from profile_assets.features.spec import CategoricalFeature, FeatureSpec


def test_only_the_newest_is_remembered() -> None:
    recent, asked = Recent(), []
    one, other = pa.array(["a", "b"]), pa.array(["c"])

    def work_out(values: pa.Array) -> np.ndarray:
        asked.append(values.to_pylist())
        return np.arange(len(values))

    for values in (one, one, other, one):
        assert len(recent.get(values, work_out)) == len(values)
    assert asked == [["a", "b"], ["c"], ["a", "b"]]


def test_pieces_of_one_array_are_told_apart() -> None:
    recent, values = Recent(), pa.array(["a", "b", "c", "d"])
    for start in range(4):
        piece = values.slice(start, 1)
        assert recent.get(piece, lambda found: np.array(found.to_pylist())).tolist() == piece.to_pylist()


def test_dictionaries_that_come_and_go_are_never_mixed_up() -> None:
    """Freed memory is used again at once: a lookup told by its address alone would give a stranger's slots."""
    spec = FeatureSpec(numeric=(), categorical=(CategoricalFeature(name="plan", vocabulary=("a", "b", "c")),))
    draw = np.random.default_rng(0)
    for _ in range(200):
        values = draw.permutation(["a", "b", "c", "x"])[: draw.integers(1, 5)]
        column = pa.DictionaryArray.from_arrays(draw.integers(0, len(values), 20, dtype=np.int32), pa.array(values))
        plain = pc.cast(column, pa.string())
        coded, dense = (encode(pa.table({"plan": one}), spec).categories for one in (column, plain))
        np.testing.assert_array_equal(coded, dense)
        del column
