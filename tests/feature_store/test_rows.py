"""Columns that ride along: the shards' own values, beside the right user, in their own types."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from profile_assets.errors import AccountingError, ContractError
from profile_assets.feature_store.read import read_day, read_days
from profile_assets.feature_store.settings import ExportSettings
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS, USERS_FILE, shard_file
from profile_assets.storage.published import published_days

NOW = dt.datetime(2026, 1, 6, 2, 30, tzinfo=dt.UTC)
EXPORT = ExportSettings(columns=("plan", "spend", "is_new", "embedding"))
FACTS = {
    "a": ("basic", decimal.Decimal("1.50"), True, [1.0, 2.0]),
    "b": (None, None, None, None),
    "c": ("plus", decimal.Decimal("0.01"), False, []),
    "d": ("basic", decimal.Decimal("-3.00"), None, [0.5]),
}


def users(ids):
    columns = list(zip(*(FACTS[user] for user in ids), strict=True))
    kinds = [pa.string(), pa.decimal128(12, 2), pa.bool_(), pa.list_(pa.float32())]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    arrays[0] = arrays[0].dictionary_encode()
    return pa.table([pa.array(ids, pa.string()), *arrays], ["user_id", *EXPORT.columns])


@pytest.fixture
def run(pipeline, day):
    """Bring a day with those columns to the door; the shards hold the users in the order given."""

    def bring(ids=tuple(FACTS), shard_ids=None):
        raw = pipeline.stage(RAW_USERS, day, {USERS_FILE: users(ids)}, {})
        shards = {shard_file(n, 2): users((shard_ids or ids)[n::2]) for n in range(2)}
        split = pipeline.stage(USER_SHARDS, day, shards, {RAW_USERS: raw.digest})
        scores = pipeline.score(day, split, list(ids))
        pipeline.judge(day, raw, split, scores)

    return bring


def test_the_values_stand_beside_their_users_in_their_types(pipeline, layout, day, run):
    run()
    pipeline.publish(day, export=EXPORT)
    table = read_day(layout, day)
    assert table.column_names[6:] == list(EXPORT.columns)
    assert table.schema.field("plan").type == pa.string()
    assert table.schema.field("spend").type == pa.decimal128(12, 2)
    rows = {row["user_id"]: tuple(row[name] for name in EXPORT.columns) for row in table.to_pylist()}
    assert rows == FACTS
    assert set(table["route"].to_pylist()) == {"full"}


def test_many_rows_are_cut_alike_whatever_the_row_groups(pipeline, layout, day):
    ids = [f"user-{n}" for n in range(300_000)]
    table = pa.table({"user_id": ids, "n": pa.array(range(300_000), pa.int64())})
    raw = pipeline.stage(RAW_USERS, day, {USERS_FILE: table}, {})
    shards = {shard_file(n, 2): table.take(pa.array(range(n, 300_000, 2))) for n in range(2)}
    split = pipeline.stage(USER_SHARDS, day, shards, {RAW_USERS: raw.digest})
    pipeline.judge(day, raw, split, pipeline.score(day, split, ids, values=[0.5] * len(ids)))
    pipeline.publish(day, export=ExportSettings(columns=("n",)))
    published = read_day(layout, day)
    assert published["user_id"].to_pylist() == [f"user-{n}" for n in published["n"].to_pylist()]


@pytest.mark.parametrize("shard_ids", [["c", "b", "a", "d"], ["b", "a", "d", "c"]])
def test_a_shard_in_another_order_or_of_other_users_is_refused_and_never_joined_by_place(
    pipeline, layout, day, run, shard_ids
):
    run(shard_ids=shard_ids)
    with pytest.raises(AccountingError, match=r"shard-0[01]-of-02.parquet"):
        pipeline.publish(day, export=EXPORT)
    assert not layout.offline.exists()


def test_a_column_that_the_shards_lack_is_named(pipeline, day, run):
    run()
    with pytest.raises(ContractError, match=r"no column age, which export\.columns names"):
        pipeline.publish(day, export=ExportSettings(columns=("plan", "age")))


def test_a_day_is_published_again_when_other_columns_are_wanted(pipeline, layout, day, run):
    run()
    pipeline.publish(day)
    later = NOW + dt.timedelta(hours=1)
    record = pipeline.publish(day, now=later, export=ExportSettings(columns=("plan",)))
    assert record.published_at == later
    assert read_day(layout, day).column_names[6:] == ["plan"]
    assert pipeline.publish(day, now=later + dt.timedelta(hours=1), export=ExportSettings(columns=("plan",))) == record


@pytest.mark.parametrize("offline", ["parquet", "delta"])
def test_a_column_whose_type_changed_is_refused_before_a_reader_meets_it(pipeline, layout, day, offline):
    tomorrow = day + dt.timedelta(days=1)
    export = ExportSettings(offline=offline, columns=("plan",))

    def publish(one, kind, now=NOW):
        table = pa.table({"user_id": pa.array(["a", "b"]), "plan": pa.array([1, 2], kind)})
        raw = pipeline.stage(RAW_USERS, one, {USERS_FILE: table}, {})
        shards = {shard_file(n, 2): table.slice(n, 1) for n in range(2)}
        split = pipeline.stage(USER_SHARDS, one, shards, {RAW_USERS: raw.digest})
        pipeline.judge(one, raw, split, pipeline.score(one, split, ["a", "b"]))
        pipeline.publish(one, now=now, export=export)

    publish(day, pa.int64())
    with pytest.raises(ContractError, match="plan of 2026-01-06 is double; in the table it is int64, by 2026-01-05"):
        publish(tomorrow, pa.float64())
    assert published_days(layout) == [day]
    publish(day, pa.float64(), NOW + dt.timedelta(hours=1))
    publish(tomorrow, pa.float64())
    assert read_days(layout, day, tomorrow, columns=["plan"])["plan"].to_pylist() == [1.0, 2.0] * 2
