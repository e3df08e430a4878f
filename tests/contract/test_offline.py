"""What every format of the table does, whichever it is: one file a day, replaced in one step, no other day touched."""

from __future__ import annotations

import datetime as dt
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import CorruptError, ProfileError
from profile_assets.feature_store.offline import open_offline
from profile_assets.storage.keys import key_set_of
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.parts import delta_table
from profile_assets.storage.published import FOOTER_KEY, PublishRecord, TargetState, footer_record

DAY = dt.date(2026, 1, 5)
ONE_DAY = dt.timedelta(days=1)
NOW = dt.datetime(2026, 1, 6, 2, tzinfo=dt.UTC)


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path, name="purchase_30d")


@pytest.fixture(params=["parquet", "delta"])
def table(request, layout):
    return open_offline(layout, request.param)


@pytest.fixture
def stage(layout):
    """Write a day's file in staging, with its record in the footer."""

    def write(ids, *, day=DAY, at=NOW, **columns):
        keys = key_set_of(pa.array(ids, pa.string()))
        record = PublishRecord(
            day=day,
            rows=len(ids),
            keys=keys,
            verdict_digest="v",
            sources={},
            bundle_id="b",
            targets={"offline": TargetState(state="done", at=at)},
        )
        rows = pa.table({"user_id": pa.array(ids, pa.string()), **columns})
        path = layout.scratch("part.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        with ParquetSink(path, rows.schema, footer={FOOTER_KEY: json.dumps(record.to_json())}) as sink:
            sink.write(rows)
        return path, record

    return write


def read_all(table):
    """The whole table as a stranger reads it."""
    if (table.path / "_delta_log").exists():
        frame = pl.read_delta(str(table.path))
        return sorted((str(day), user) for user, day in frame.select("user_id", "ds").rows())
    rows = ds.dataset(table.path, partitioning="hive").to_table(columns=["ds", "user_id"]).to_pylist()
    return sorted((row["ds"], row["user_id"]) for row in rows)


def ids_of(part):
    return pq.read_table(part, partitioning=None)["user_id"].to_pylist()


def test_a_table_that_is_not_there_has_no_day(table):
    assert table.part(DAY) is None
    assert table.days() == []
    table.remove(DAY)


def test_a_day_is_one_file_with_its_record(table, stage):
    path, record = stage(["a", "b"])
    table.replace(path, record)
    assert not path.exists()
    assert ids_of(table.part(DAY)) == ["a", "b"]
    assert footer_record(table.part(DAY), DAY) == record
    assert table.days() == [DAY]
    assert read_all(table) == [("2026-01-05", "a"), ("2026-01-05", "b")]


@pytest.mark.parametrize("wanted", ["parquet", "delta"])
def test_a_path_that_a_uri_would_bend_is_no_trouble(tmp_path, stage, wanted):
    table = open_offline(Layout(root=tmp_path, name="30 % of #1?"), wanted)
    for ids in (["a"], ["b"]):
        table.replace(*stage(ids))
        assert ids_of(table.part(DAY)) == ids


def test_a_replaced_day_keeps_nothing_of_the_old_and_touches_no_other(table, stage):
    table.replace(*stage(["x"], day=DAY - ONE_DAY))
    other = table.part(DAY - ONE_DAY)
    before = (other.stat().st_ino, other.read_bytes())
    table.replace(*stage(["a", "b", "c"]))
    table.replace(*stage(["z"]))
    assert read_all(table) == [("2026-01-04", "x"), ("2026-01-05", "z")]
    assert table.part(DAY - ONE_DAY) == other
    assert (other.stat().st_ino, other.read_bytes()) == before


def test_a_day_without_rows_is_still_there(table, stage):
    table.replace(*stage(["a"]))
    table.replace(*stage([]))
    assert ids_of(table.part(DAY)) == []
    assert table.days() == [DAY]


def test_a_removed_day_is_gone_and_can_come_back(table, stage):
    table.replace(*stage(["x"], day=DAY - ONE_DAY))
    table.replace(*stage(["a"]))
    table.remove(DAY)
    assert table.part(DAY) is None
    assert read_all(table) == [("2026-01-04", "x")]
    table.replace(*stage(["b"]))
    assert read_all(table) == [("2026-01-04", "x"), ("2026-01-05", "b")]


def test_columns_may_come_and_go_from_day_to_day(table, stage):
    table.replace(*stage(["a"], day=DAY, plan=pa.array(["basic"])))
    table.replace(*stage(["b"], day=DAY + ONE_DAY, orders=pa.array([3], pa.int32())))
    table.replace(*stage(["c"], day=DAY + 2 * ONE_DAY))
    assert [user for _, user in read_all(table)] == ["a", "b", "c"]
    assert pq.read_table(table.part(DAY), partitioning=None).column_names == ["user_id", "plan"]


def test_what_was_not_published_yet_was_not_known(table, stage):
    table.replace(*stage(["a"], at=dt.datetime.now(dt.UTC)))
    before, after = NOW - ONE_DAY, dt.datetime.now(dt.UTC) + ONE_DAY
    assert (table.part(DAY, known_at=before), table.days(known_at=before)) == (None, [])
    assert (table.part(DAY, known_at=after), table.days(known_at=after)) == (table.part(DAY), [DAY])


def test_days_published_at_the_same_moment_are_all_there(table, stage, layout):
    staged = []
    for n in range(6):
        path, record = stage([f"u{n}"], day=DAY + n * ONE_DAY)
        staged.append((path.rename(path.with_name(f"{n}.parquet")), record))
    start = threading.Barrier(len(staged))

    def replace(pair):
        start.wait()
        open_offline(layout, "delta" if type(table).__name__ == "DeltaLake" else "parquet").replace(*pair)

    with ThreadPoolExecutor(len(staged)) as pool:
        list(pool.map(replace, staged))
    assert [user for _, user in read_all(table)] == [f"u{n}" for n in range(6)]


def test_a_reader_sees_the_old_day_or_the_new_one(table, stage):
    table.replace(*stage(["a"] * 100))
    is_over = threading.Event()

    def read_on():
        seen = set()
        while not is_over.is_set() or not seen:
            seen.add(tuple(sorted({user for _, user in read_all(table)})))
        return seen

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read_on)
        try:
            for turn in range(20):
                table.replace(*stage(["ab"[turn % 2]] * 100))
        finally:
            is_over.set()
        assert reader.result() <= {("a",), ("b",)}


def test_the_table_says_itself_what_it_is(table, stage, layout):
    table.replace(*stage(["a"]))
    assert type(open_offline(layout)) is type(table)
    other = "parquet" if type(table).__name__ == "DeltaLake" else "delta"
    with pytest.raises(ProfileError, match=f"the profile wants {other}"):
        open_offline(layout, other)


def test_an_older_state_of_a_delta_table_can_be_read(stage, layout):
    table = open_offline(layout, "delta")
    table.replace(*stage(["a"]))
    first = delta_table(table.path).history()[0]["timestamp"]
    table.replace(*stage(["b"]))
    then = dt.datetime.fromtimestamp(first / 1000, dt.UTC)
    assert ids_of(table.part(DAY, known_at=then)) == ["a"]
    assert ids_of(table.part(DAY)) == ["b"]


def test_a_delta_commit_carries_the_record(stage, layout):
    table = open_offline(layout, "delta")
    path, record = stage(["a"])
    table.replace(path, record)
    assert PublishRecord.from_json(json.loads(delta_table(table.path).history()[0][FOOTER_KEY])) == record


def test_a_day_that_something_else_wrote_to_is_named(stage, layout):
    from deltalake import write_deltalake

    table = open_offline(layout, "delta")
    table.replace(*stage(["a"]))
    write_deltalake(str(table.path), pa.table({"user_id": ["b"], "ds": [DAY]}), mode="append")
    with pytest.raises(CorruptError, match="lies in 2 files"):
        table.part(DAY)
    table.replace(*stage(["c"]))
    assert read_all(table) == [("2026-01-05", "c")]
