"""Ids in their order have one digest: nothing else has it, and how they are cut does not matter."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import DataError
from profile_assets.storage.keys import key_set_of
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.stages import describe, keys_on_disk, stage_options
from profile_assets.storage.written import IdOrder, ScoreOrder, Written

IDS = st.lists(st.text(alphabet="ab\0é", max_size=4), max_size=8)


def order_of(ids: list[str], cuts: list[int], kind: pa.DataType) -> IdOrder:
    order = IdOrder()
    array = pa.array(ids, pa.string()).cast(kind)
    bounds = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    for start, stop in itertools.pairwise(bounds):
        order.add(array.slice(start, stop - start))
    return order


KINDS = st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])


@given(ids=IDS, cuts=st.tuples(*[st.lists(st.integers(0, 8), max_size=3)] * 2), kinds=st.tuples(KINDS, KINDS))
def test_the_same_ids_cut_and_dressed_otherwise_are_the_same(
    ids: list[str], cuts: tuple[list[int], list[int]], kinds: tuple[pa.DataType, pa.DataType]
) -> None:
    one, other = (order_of(ids, cut, kind) for cut, kind in zip(cuts, kinds, strict=True))
    assert one.is_that_of(other)
    assert one.count == len(ids)


@given(one=IDS, other=IDS)
def test_other_ids_or_another_order_are_not_the_same(one: list[str], other: list[str]) -> None:
    assert order_of(one, [], pa.string()).is_that_of(order_of(other, [], pa.string())) == (one == other)


@pytest.mark.parametrize(("one", "other"), [(["ab", "c"], ["a", "bc"]), (["", "a"], ["a", ""]), (["a"], ["a", ""])])
def test_where_an_id_ends_counts(one: list[str], other: list[str]) -> None:
    assert not order_of(one, [], pa.string()).is_that_of(order_of(other, [], pa.string()))


SCORES = st.lists(st.floats(width=32) | st.none(), max_size=6)


def score_order(scores: list[float | None], cut: int, ids: str = "abcdef") -> str:
    order, array = ScoreOrder(), pa.array(scores, pa.float32())
    for start, stop in itertools.pairwise([0, min(cut, len(scores)), len(scores)]):
        order.add(pa.array(list(ids[start:stop]), pa.string()), array.slice(start, stop - start))
    return order.digest


@given(one=SCORES, other=SCORES, cuts=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_scores_beside_their_ids_have_one_digest_and_no_others_have_it(
    one: list[float | None], other: list[float | None], cuts: tuple[int, int]
) -> None:
    assert score_order(one, cuts[0]) == score_order(one, cuts[1])
    same = pa.array(one, pa.float32()).equals(pa.array(other, pa.float32())) or str(one) == str(other)
    if score_order(one, cuts[0]) == score_order(other, cuts[1]):
        assert same
    assert not one or score_order(one, 0) != score_order(one, 0, ids="abcdef"[::-1][: len(one)])


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (float("nan"), None), (0.5, 0.50000006)])
def test_every_bit_of_a_score_counts(one: float | None, other: float | None) -> None:
    assert score_order([one], 0) != score_order([other], 0)


def test_null_is_no_id() -> None:
    one, other = IdOrder(), IdOrder()
    for order in (one, other):
        order.add(pa.array(["a", None]))
    assert not one.is_that_of(other)


def test_a_file_of_other_ids_gets_their_own_key_set(tmp_path: Path) -> None:
    """What a file should hold is never taken for what it holds."""
    written, path = Written(), tmp_path / "a.parquet"
    written.add(pa.array(["a", "b", "c"]))
    for ids in (["a", "b", "c"], ["a", "c", "b"], ["a", "b", "b"], ["a", "b"], []):
        table = pa.table({"user_id": pa.array(ids, pa.string())})
        with ParquetSink(path, table.schema) as sink:
            sink.write(table)
        assert describe(path, written=written) == describe(path)
        assert keys_on_disk(path, written) == key_set_of(table.column(0))


def test_a_key_set_of_another_size_is_not_believed(tmp_path: Path) -> None:
    path, table = tmp_path / "a.parquet", pa.table({"user_id": ["a", "b"]})
    with ParquetSink(path, table.schema, **stage_options(table.schema)) as sink:
        sink.write(table)
    order = order_of(["a", "b"], [], pa.string())
    claimed = key_set_of(pa.array(["a", "b", "c"]))
    assert describe(path, written=Written(order, claimed)).rows == 2


def test_a_null_id_on_disk_is_an_error_all_the_same(tmp_path: Path) -> None:
    path, table = tmp_path / "a.parquet", pa.table({"user_id": pa.array(["a", None])})
    with ParquetSink(path, table.schema) as sink:
        sink.write(table)
    order = IdOrder()
    order.add(table.column(0))
    with pytest.raises(DataError, match="null"):
        describe(path, written=Written(order, key_set_of(pa.array(["a", "b"]))))
