"""Repeated ids are found exactly, whatever the ids look like."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.quality.uniqueness import IdHashes, hash_ids, num_repeats
from profile_assets.storage.parquet import ParquetSink

IDS = st.lists(st.text(max_size=20) | st.sampled_from(["", "7", "007", "a" * 100, "a" * 100 + "b", "\x00", "\x00\x00"]))


@given(IDS)
def test_equal_ids_have_equal_hashes_and_different_ids_different_ones(ids):
    hashes = hash_ids(pa.array(ids, type=pa.string()))
    assert len(hashes) == len(ids)
    assert len(set(hashes.tolist())) == len(set(ids))
    assert dict(zip(ids, hashes.tolist(), strict=True)) == dict(
        zip(reversed(ids), reversed(hashes.tolist()), strict=True)
    )


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_the_hash_does_not_depend_on_the_encoding_or_on_the_slice(kind):
    ids = pa.array(["x", "yy", "", "long" * 9, "yy"])
    assert hash_ids(ids.cast(kind)[1:4]).tolist() == hash_ids(ids).tolist()[1:4]


@given(IDS)
def test_ids_said_again_are_found_over_all_batches(ids):
    hashes = IdHashes()
    for _ in hashes.watch(pa.record_batch([pa.array([one], type=pa.string())], names=["user_id"]) for one in ids):
        pass
    again = [text for text, times in Counter(ids).items() if times > 1]
    assert len(hashes.repeated()) == len(again)


def test_repeats_are_counted_over_all_files(tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, ids in zip(paths, (["u1", "u2", "u1"], ["u1", "u3"]), strict=True):
        table = pa.table({"user_id": ids})
        with ParquetSink(path, table.schema) as sink:
            sink.write(table)
    repeated = np.unique(hash_ids(pa.array(["u1"])))
    assert num_repeats(paths, repeated) == 2


def test_a_hash_that_different_ids_share_is_no_repeat(tmp_path):
    table = pa.table({"user_id": ["u1", "u2", "u3"]})
    with ParquetSink(tmp_path / "a.parquet", table.schema) as sink:
        sink.write(table)
    suspected = np.unique(hash_ids(pa.array(["u1", "u3"])))
    assert num_repeats([tmp_path / "a.parquet"], suspected) == 0
