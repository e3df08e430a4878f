"""Values of a published row that the digest of ids and scores does not cover are proven all the same."""

from __future__ import annotations

import datetime as dt
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.storage.layout import USER_SHARDS
from profile_assets.storage.parquet import ParquetSink, read_footer
from profile_assets.upkeep.prune import prune
from profile_assets.upkeep.settings import Retention
from profile_assets.upkeep.verify import verify_day

DAY = dt.date(2026, 2, 27)
IDS = [f"u{n}" for n in range(40)]
NAN = float("nan")
LANDED = {
    "plan": pa.array(["free", None, "paid", "paid"] * 10).dictionary_encode(),
    "pay": pa.array([1.5, NAN, None, -0.0] * 10),
    "past": pa.array([[1.0, NAN], [], None, [2.0]] * 10, pa.list_(pa.float32())),
}
CANARY = {"share": 0.25, "salt": "s"}


def found(layout, part: str, zone: str = "UTC") -> tuple[str, str]:
    (one,) = [one for one in verify_day(layout, DAY, time_zone=zone).findings if one.part == part]
    return one.state, one.detail


def change(layout, name: str, place: int, value) -> None:
    """Another value in one row of the published file, its footer and everything else as it was."""
    part = layout.offline_part(DAY)
    table, footer = pq.read_table(part, partitioning=None).replace_schema_metadata(), read_footer(part)
    values = table[name].to_pylist()
    values[place] = value
    at = table.schema.get_field_index(name)
    table = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    with ParquetSink(part, table.schema, footer={key: one for key, one in footer.items() if "{" in one}) as sink:
        sink.write(table)
    assert json.loads(next(iter(footer.values()))) is not None


@pytest.fixture
def published(days):
    days.run(DAY, IDS, landed=LANDED, canary=CANARY)
    days.publish(DAY, columns=("plan", "pay", "past"))
    return days


@pytest.mark.usefixtures("published")
def test_columns_moments_and_the_canarys_users_are_right_nan_and_nulls_included(layout):
    assert found(layout, "columns") == ("right", "plan, pay, past: every value is that of the shards")
    assert found(layout, "rows")[0] == "right"


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("name", "value"), [("plan", "gold"), ("plan", None), ("pay", 0.25), ("past", [1.0]), ("pay", NAN)]
)
def test_one_other_value_of_a_column_that_rides_along_is_found(layout, name, value):
    change(layout, name, 0, value)
    assert found(layout, "offline")[0] == "right"
    state, detail = found(layout, "columns")
    assert (state, f"in {name} (from" in detail) == ("wrong", True)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("name", ["event_timestamp", "published_at"])
def test_one_row_of_another_moment_is_found(layout, name):
    change(layout, name, 7, dt.datetime(2026, 2, 26, tzinfo=dt.UTC))
    state, detail = found(layout, "rows")
    assert (state, detail.startswith(f"{name} of u")) == ("wrong", True)


@pytest.mark.usefixtures("published")
def test_a_day_that_ends_at_another_moment_than_the_profiles_is_found(layout):
    state, detail = found(layout, "rows", zone="Asia/Shanghai")
    assert (state, "event_timestamp of" in detail) == ("wrong", True)


def test_a_user_whom_the_canary_scored_outside_of_its_share_is_found(days, layout):
    days.run(DAY, IDS, canary=CANARY)
    days.publish(DAY)
    part = layout.offline_part(DAY)
    routes = pq.read_table(part, partitioning=None)["route"].to_pylist()
    inside, outside = routes.index("canary"), routes.index("full")
    for place, route, bundle in ((inside, "full", "b-1"), (outside, "canary", "b-2")):
        change(layout, "route", place, route)
        change(layout, "bundle_id", place, bundle)
    assert found(layout, "offline")[0] == "right"  # as many as the record says, each by the bundle of its route
    state, detail = found(layout, "rows")
    assert (state, "is not that of the canary's share" in detail) == ("wrong", True)


@pytest.mark.usefixtures("published")
def test_columns_whose_shards_are_gone_are_said_to_be_unproven(layout, days, now, ago):
    for back in (1, 0):
        days.published(ago(back))
    prune(layout, Retention(raw_days=0, shards_days=0, scores_days=30), today=now.date(), now=now, busy={})
    assert found(layout, "columns") == ("pruned", "the shards that plan, pay, past came from are gone")
    shutil.rmtree(layout.stage(USER_SHARDS, DAY))
    assert found(layout, "columns")[0] == "missing"  # with the manifest, what said that it was pruned is gone too
