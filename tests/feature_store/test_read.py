"""The published table as people read it: four readers, value by value, and the package's own."""

from __future__ import annotations

import datetime as dt

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from profile_assets.errors import DataError
from profile_assets.feature_store.read import lookup, lookup_many, newest_day, read_day, read_days
from profile_assets.feature_store.settings import ExportSettings
from profile_assets.storage.published import published_days

IDS = ["007", "NA", "null", "9223372036854775807", "Zoë"]
SECOND = dt.date(2026, 1, 5)
FIRST = SECOND - dt.timedelta(days=1)
NOW = dt.datetime(2026, 1, 6, 2, 30, 0, 123456, tzinfo=dt.UTC)


@pytest.fixture
def two_days(pipeline):
    for day, bundle in ((FIRST, "b-1"), (SECOND, "b-2")):
        pipeline.run(day, IDS, bundle=bundle, values=[n / 8 for n in range(len(IDS))])
        pipeline.publish(day)
    return pipeline.layout


@pytest.fixture
def expected():
    """Every published row, as plain values, ordered by day and id."""
    rows = [
        (user, n / 8, bundle, "full", dt.datetime.combine(day, dt.time(23), dt.UTC), NOW, day)
        for day, bundle in ((FIRST, "b-1"), (SECOND, "b-2"))
        for n, user in enumerate(IDS)
    ]
    return sorted(rows, key=lambda row: (row[6], row[0]))


def ordered(rows):
    """Rows as plain values: moments in UTC, the partition as a date, whatever the reader made of them."""
    plain = [
        (user, score, bundle, route, event.astimezone(dt.UTC), at.astimezone(dt.UTC), dt.date.fromisoformat(str(day)))
        for user, score, bundle, route, event, at, day in rows
    ]
    return sorted(plain, key=lambda row: (row[6], row[0]))


COLUMNS = ["user_id", "score", "bundle_id", "route", "event_timestamp", "published_at", "ds"]


def test_pandas_reads_the_table_as_it_is(two_days, expected):
    frame = pd.read_parquet(two_days.offline)
    assert list(frame.columns) == COLUMNS
    assert ordered(frame.itertuples(index=False, name=None)) == expected


def test_pyarrow_reads_the_table_as_it_is(two_days, expected):
    table = ds.dataset(two_days.offline, partitioning="hive").to_table()
    assert table.column_names == COLUMNS
    assert ordered(zip(*table.to_pydict().values(), strict=True)) == expected


def test_duckdb_reads_the_table_as_it_is(two_days, expected):
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        query = f"select * from read_parquet('{two_days.offline}/**/*.parquet', hive_partitioning = true)"
        table = connection.sql(query).to_arrow_table()
    assert table.column_names == COLUMNS
    assert ordered(zip(*table.to_pydict().values(), strict=True)) == expected


def test_polars_reads_the_table_as_it_is(two_days, expected):
    frame = pl.scan_parquet(two_days.offline, hive_partitioning=True).collect()
    assert frame.columns == COLUMNS
    assert ordered(frame.rows()) == expected


def test_nothing_but_one_file_a_day_lies_under_the_table(two_days):
    files = sorted(str(path.relative_to(two_days.offline)) for path in two_days.offline.rglob("*") if path.is_file())
    assert files == ["ds=2026-01-04/part-00000.parquet", "ds=2026-01-05/part-00000.parquet"]


def test_a_day_is_read_whole(two_days):
    table = read_day(two_days, FIRST)
    assert sorted(table["user_id"].to_pylist()) == sorted(IDS)
    assert table.schema.field("score").type == pa.float32()


def test_a_lookup_gives_the_row_of_the_newest_day_by_date(two_days):
    found = lookup(two_days, "NA")
    assert (newest_day(two_days), found["day"]) == (SECOND, SECOND)
    assert (found["user_id"], found["score"], found["bundle_id"]) == ("NA", 0.125, "b-2")


def test_a_lookup_can_name_its_day(two_days):
    assert lookup(two_days, "007", FIRST)["bundle_id"] == "b-1"


@pytest.mark.parametrize("user_id", ["7", "", "nan"])
def test_a_user_who_is_not_there_is_none(two_days, user_id):
    assert lookup(two_days, user_id) is None


def test_a_day_that_is_not_published_is_named(two_days):
    with pytest.raises(DataError, match="2025-12-31"):
        read_day(two_days, dt.date(2025, 12, 31))
    with pytest.raises(DataError, match="2025-12-31"):
        lookup(two_days, "007", dt.date(2025, 12, 31))


def test_nothing_published_is_an_error_and_no_empty_answer(layout):
    assert newest_day(layout) is None
    with pytest.raises(DataError, match="nothing of purchase_30d"):
        lookup(layout, "007")


def test_a_range_of_days_is_one_table_with_the_day_beside(two_days):
    table = read_days(two_days, FIRST, SECOND)
    assert table.column_names == COLUMNS
    assert table["ds"].to_pylist() == [FIRST] * len(IDS) + [SECOND] * len(IDS)
    some = read_days(two_days, SECOND, SECOND + dt.timedelta(days=9), columns=["user_id", "score"])
    assert (some.column_names, some.num_rows) == (["user_id", "score", "ds"], len(IDS))
    assert table.to_pandas()["user_id"].tolist() == table["user_id"].to_pylist()


def test_a_range_without_a_published_day_is_an_error(two_days):
    with pytest.raises(DataError, match="from 2025-01-01 to 2025-12-31"):
        read_days(two_days, dt.date(2025, 1, 1), dt.date(2025, 12, 31))


@pytest.mark.parametrize("offline", ["parquet", "delta"])
def test_what_was_known_at_a_time_is_what_was_published_by_then(pipeline, layout, offline):
    export, later = ExportSettings(offline=offline), NOW + dt.timedelta(hours=1)
    for day, at in ((FIRST, NOW), (SECOND, later)):
        pipeline.run(day, IDS)
        pipeline.publish(day, now=at, export=export)
    if offline == "parquet":  # a Delta table goes by its own log, and so by the clock of the machine
        known = read_days(layout, FIRST, SECOND, known_at=later - dt.timedelta(microseconds=1))
        assert set(known["ds"].to_pylist()) == {FIRST}
        assert set(read_days(layout, FIRST, SECOND, known_at=later)["ds"].to_pylist()) == {FIRST, SECOND}
    now = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    assert set(read_days(layout, FIRST, SECOND, known_at=now)["ds"].to_pylist()) == {FIRST, SECOND}
    with pytest.raises(DataError, match="as it was known at"):
        read_days(layout, FIRST, SECOND, known_at=NOW - dt.timedelta(seconds=1))


def test_many_users_are_looked_up_in_one_pass(two_days):
    found = lookup_many(two_days, ["007", "zz", "Zoë"], FIRST)
    assert found["zz"] is None
    assert {user: row["score"] for user, row in found.items() if row} == {"007": 0.0, "Zoë": 0.5}


@pytest.fixture
def two_delta_days(pipeline):
    for day, bundle in ((FIRST, "b-1"), (SECOND, "b-2")):
        pipeline.run(day, IDS, bundle=bundle, values=[n / 8 for n in range(len(IDS))])
        pipeline.publish(day, export=ExportSettings(offline="delta"))
    return pipeline.layout


def test_deltalake_duckdb_and_polars_read_a_delta_table_alike(two_delta_days, expected):
    path = str(two_delta_days.offline)
    rows = DeltaTable(path).to_pyarrow_dataset()
    arrow = rows.to_table()
    assert arrow.column_names == COLUMNS
    assert ordered(zip(*arrow.to_pydict().values(), strict=True)) == expected
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("scores", rows)
        assert ordered(connection.sql("select * from scores").fetchall()) == expected
    assert ordered(pl.read_delta(path).rows()) == expected
    assert ordered(DeltaTable(path).to_pandas().itertuples(index=False, name=None)) == expected


def test_the_package_reads_a_delta_table_as_it_reads_parquet(two_delta_days):
    assert sorted(read_day(two_delta_days, FIRST)["user_id"].to_pylist()) == sorted(IDS)
    assert read_days(two_delta_days, FIRST, SECOND).column_names == COLUMNS
    assert lookup(two_delta_days, "NA")["bundle_id"] == "b-2"
    with pytest.raises(DataError, match="2025-12-31"):
        read_day(two_delta_days, dt.date(2025, 12, 31))


def test_a_folder_named_like_a_day_that_is_none_is_no_day(pipeline, layout, day):
    pipeline.run(day, ["a"])
    pipeline.publish(day)
    folder = layout.offline / "ds=2026-13-99"
    folder.mkdir()
    (folder / layout.offline_part(day).name).write_bytes(layout.offline_part(day).read_bytes())
    assert published_days(layout) == [day]
