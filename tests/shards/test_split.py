"""A day dealt into shards: every user once, in the right file, unchanged; and made again only when it must be."""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import AccountingError, CorruptError, DataError, PermanentError
from profile_assets.shards import split as splitting
from profile_assets.shards.split import split
from profile_assets.storage.layout import MANIFEST_FILE, RAW_USERS, USER_SHARDS, USERS_FILE, Layout, shard_file
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import commit, require

Land = Callable[[pa.Table], Manifest]


def users(rows: int, *, seed: int = 1) -> pa.Table:
    """Every type that a contract can promise, with nulls."""
    draw = np.random.default_rng(seed)
    plans = draw.choice(["free", "paid", "gold"], rows)
    return pa.table(
        {
            "user_id": pa.array([f"{number:06d}" for number in range(rows)], pa.string()),
            "plan": pa.array(plans, pa.string(), mask=draw.random(rows) < 0.2),
            "note": pa.array([f"note {number}" for number in range(rows)], pa.string()),
            "age": pa.array(draw.integers(0, 99, rows), pa.int8(), mask=draw.random(rows) < 0.1),
            "large": pa.array(draw.integers(2**62, 2**63 - 1, rows), pa.int64()),
            "spent": pa.array(draw.random(rows), pa.float32()),
            "rate": pa.array(np.where(draw.random(rows) < 0.1, np.nan, draw.random(rows)), pa.float64()),
            "is_member": pa.array(draw.random(rows) < 0.5, pa.bool_(), mask=draw.random(rows) < 0.1),
            "since": pa.array([dt.date(2020, 1, 1)] * rows, pa.date32()),
            "seen": pa.array([dt.datetime(2026, 1, 5, tzinfo=dt.UTC)] * rows, pa.timestamp("us", tz="UTC")),
            "credit": pa.array([decimal.Decimal("10.25")] * rows, pa.decimal128(12, 2)),
            "history": pa.array([[0.5, 1.5]] * rows, pa.list_(pa.float32(), 2)),
            "nothing": pa.nulls(rows, pa.string()),
        }
    )


def comparable(table: pa.Table) -> pa.Table:
    """Text as plain text, and doubles as their bits: NaN is not equal to itself."""
    for place, field in enumerate(table.schema):
        column = table.column(place).combine_chunks()
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, column.dictionary_decode())
        elif pa.types.is_float64(field.type):
            table = table.set_column(place, field.name, column.view(pa.int64()))
    return table


def all_rows(folder: Path, names: list[str]) -> pa.Table:
    return comparable(pa.concat_tables([pq.read_table(folder / name) for name in names])).sort_by("user_id")


@pytest.mark.parametrize("count", [1, 3, 16])
def test_every_user_is_in_the_one_shard_of_its_hash_and_unchanged(
    layout: Layout, day: dt.date, land: Land, count: int
) -> None:
    table = users(1000)
    land(table)
    staged = split(layout, day, count)
    names = [shard_file(index, count) for index in range(count)]
    for index, name in enumerate(names):
        ids = pq.read_table(staged.folder / name).column("user_id").to_pylist()
        assert {int(hashlib.md5(one.encode(), usedforsecurity=False).hexdigest(), 16) % count for one in ids} <= {index}
        assert ids == sorted(ids), "rows keep their order within a shard"
    assert all_rows(staged.folder, names).equals(comparable(table))
    assert [entry.name for entry in staged.manifest.files] == names
    assert staged.manifest.facts == {"num_shards": count}


def test_numbers_keep_their_landed_types_and_text_becomes_a_dictionary(
    layout: Layout, day: dt.date, land: Land
) -> None:
    land(users(100))
    schema = pq.read_schema(split(layout, day, 2).folder / shard_file(0, 2))
    text = {"plan", "note", "nothing"}
    for field in users(1).schema:
        wanted = pa.dictionary(pa.int32(), pa.string()) if field.name in text else field.type
        assert schema.field(field.name).type == wanted


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(0, 60), count=st.integers(1, 20), block_bytes=st.integers(1, 20_000), files=st.integers(1, 5))
def test_blocks_and_passes_of_any_size_deal_the_same(
    layout: Layout,
    day: dt.date,
    land: Land,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    count: int,
    block_bytes: int,
    files: int,
) -> None:
    monkeypatch.setattr(splitting, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(splitting, "OPEN_FILES", files)
    table = users(rows)
    land(table)
    told: list[int] = []
    staged = split(layout, day, count, progress=told.append)
    assert all_rows(staged.folder, [entry.name for entry in staged.manifest.files]).equals(comparable(table))
    assert staged.manifest.rows == rows
    assert not rows or told[-1] == rows


def test_zero_users_are_n_empty_files(layout: Layout, day: dt.date, land: Land) -> None:
    land(users(0))
    staged = split(layout, day, 4)
    assert [pq.read_metadata(staged.folder / entry.name).num_rows for entry in staged.manifest.files] == [0] * 4


def test_fewer_shards_leave_nothing_of_the_old(layout: Layout, day: dt.date, land: Land) -> None:
    land(users(200))
    commit(layout, day, split(layout, day, 16))
    commit(layout, day, split(layout, day, 4))
    wanted = {MANIFEST_FILE, *(shard_file(index, 4) for index in range(4))}
    assert {path.name for path in layout.stage(USER_SHARDS, day).iterdir()} == wanted


def test_the_same_split_of_the_same_users_is_handed_back(layout: Layout, day: dt.date, land: Land) -> None:
    land(users(200))
    first = commit(layout, day, split(layout, day, 4))
    folder = layout.stage(USER_SHARDS, day)
    for path in [*folder.iterdir(), layout.stage(RAW_USERS, day) / USERS_FILE]:
        os.utime(path, (0, 0))
    again = split(layout, day, 4)
    assert again.folder == folder
    assert commit(layout, day, again) == first
    assert not layout.staging(USER_SHARDS, day).exists()


def test_other_users_are_split_again(layout: Layout, day: dt.date, land: Land) -> None:
    land(users(200, seed=1))
    first = commit(layout, day, split(layout, day, 4))
    land(users(200, seed=2))
    again = split(layout, day, 4)
    assert again.folder == layout.staging(USER_SHARDS, day)
    assert again.manifest.digest != first.digest
    assert again.manifest.keys == first.keys


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_damaged_shards_are_made_again(layout: Layout, day: dt.date, land: Land, damage: str) -> None:
    land(users(200))
    first = commit(layout, day, split(layout, day, 4))
    shard = layout.stage(USER_SHARDS, day) / shard_file(2, 4)
    if damage == "cut":
        os.truncate(shard, shard.stat().st_size - 1)
    elif damage == "gone":
        shard.unlink()
    else:
        layout.manifest(USER_SHARDS, day).write_text("{", encoding="utf-8")
    assert commit(layout, day, split(layout, day, 4)).digest == first.digest
    assert require(layout, USER_SHARDS, day).digest == first.digest


def test_leftovers_of_a_killed_run_do_not_come_in(layout: Layout, day: dt.date, land: Land) -> None:
    land(users(200))
    staging = layout.staging(USER_SHARDS, day)
    staging.mkdir(parents=True)
    (staging / shard_file(0, 9)).write_bytes(b"half")
    staged = split(layout, day, 4)
    assert {path.name for path in staged.folder.iterdir()} == {MANIFEST_FILE, *(shard_file(k, 4) for k in range(4))}


def test_a_day_that_was_not_landed_is_named(layout: Layout, day: dt.date) -> None:
    with pytest.raises(DataError, match="raw_users of 2026-01-05 is not there"):
        split(layout, day, 4)


def test_landed_users_that_changed_under_their_manifest_are_refused(layout: Layout, day: dt.date, land: Land) -> None:
    land(users(200))
    path = layout.stage(RAW_USERS, day) / USERS_FILE
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(CorruptError, match=r"users\.parquet"):
        split(layout, day, 4)


def test_a_user_lost_on_the_way_fails_the_day(
    layout: Layout, day: dt.date, land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums close on what is read again from the disk, so a fault in the dealing itself cannot hide."""
    land(users(200))
    monkeypatch.setattr(splitting, "_own_dictionaries", lambda rows: rows.take([*range(1, len(rows)), len(rows) - 1]))
    with pytest.raises(AccountingError, match="has 200 users, its shards hold 200, or others"):
        split(layout, day, 4)


@pytest.mark.parametrize("count", [0, -3])
def test_a_split_into_no_shards_is_refused(layout: Layout, day: dt.date, count: int) -> None:
    with pytest.raises(PermanentError, match="shards"):
        split(layout, day, count)


def test_a_rare_slice_does_not_carry_the_whole_vocabulary(layout: Layout, day: dt.date, land: Land) -> None:
    """Each of n files repeating every value of a block would grow with n times the vocabulary."""
    land(users(3000).select(["user_id", "note"]))
    folder = split(layout, day, 64).folder
    assert sum(path.stat().st_size for path in folder.glob("*.parquet")) < 20 * 3000 + 64 * 4000
    column = pq.read_table(folder / shard_file(0, 64)).column("note").combine_chunks()
    assert len(column.dictionary) == len(column)
