"""The score as it was at a moment: never a later one, never another user's, never older than asked for."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import ContractError, DataError
from profile_assets.feature_store.join import point_in_time
from profile_assets.feature_store.read import read_days
from profile_assets.feature_store.settings import ExportSettings

DAYS = [dt.date(2026, 1, 4) + dt.timedelta(days=n) for n in range(3)]
# The zone of the tests is an hour east of UTC: a day ends at 23:00 UTC.
ENDS = [dt.datetime.combine(day, dt.time(23), dt.UTC) for day in DAYS]
HOUR, SECOND = dt.timedelta(hours=1), dt.timedelta(seconds=1)
USERS = {DAYS[0]: ["a", "b", "gone"], DAYS[1]: ["a", "b"], DAYS[2]: ["b", "new"]}


def entities(*rows):
    users, moments = zip(*rows, strict=True)
    moment = pa.array(moments, pa.timestamp("us", tz="UTC"))
    return pa.table({"user_id": pa.array(users, pa.string()), "event_timestamp": moment, "n": range(len(rows))})


@pytest.fixture
def published(pipeline):
    """Three days, each published three hours after its end; user n of day d has the score d / 4 + n / 64."""
    for d, day in enumerate(DAYS):
        pipeline.run(day, USERS[day], values=[d / 4 + n / 64 for n in range(len(USERS[day]))], bundle=f"b-{d}")
        pipeline.publish(day, now=ENDS[d] + 3 * HOUR)
    return pipeline.layout


def test_each_row_gets_the_newest_day_that_had_ended(published):
    rows = [("a", ENDS[0] - SECOND), ("a", ENDS[0]), ("a", ENDS[1] - SECOND), ("a", ENDS[1]), ("b", ENDS[2] + 9 * HOUR)]
    joined = point_in_time(published, entities(*rows))
    assert joined.column_names == ["user_id", "event_timestamp", "n", "score_timestamp", "score", "bundle_id"]
    assert joined["score"].to_pylist() == [None, 0.0, 0.0, 0.25, 0.5]
    assert joined["bundle_id"].to_pylist() == [None, "b-0", "b-0", "b-1", "b-2"]
    assert joined["score_timestamp"].to_pylist() == [None, ENDS[0], ENDS[0], ENDS[1], ENDS[2]]
    assert joined["n"].to_pylist() == list(range(5))


def test_a_user_who_vanished_keeps_the_last_score_as_long_as_it_may_be_old(published):
    late = entities(("gone", ENDS[2]), ("a", ENDS[2]))
    assert point_in_time(published, late)["score"].to_pylist() == [2 / 64, 0.25]
    assert point_in_time(published, late, max_age=24 * HOUR)["score"].to_pylist() == [None, 0.25]
    assert point_in_time(published, late, max_age=23 * HOUR)["score"].to_pylist() == [None, None]


def test_what_was_not_published_by_then_can_be_kept_out(published):
    rows = entities(("b", ENDS[1] + 2 * HOUR), ("b", ENDS[1] + 3 * HOUR))
    joined = point_in_time(published, rows, has_to_be_published=True)
    assert joined["bundle_id"].to_pylist() == ["b-0", "b-1"]


def test_users_who_are_unknown_or_stand_twice_keep_their_rows(published):
    joined = point_in_time(published, entities(("zz", ENDS[2]), ("b", ENDS[2]), ("b", ENDS[2])))
    assert joined["score"].to_pylist() == [None, 0.5, 0.5]


def test_no_rows_give_no_rows_in_the_tables_types(published):
    joined = point_in_time(published, entities(("a", ENDS[0])).slice(0, 0))
    assert (joined.num_rows, joined.schema.field("score").type) == (0, pa.float32())


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["a", "b", "gone", "new", "zz"]), st.integers(-100, 100)), min_size=1, max_size=40
    ),
    max_age=st.none() | st.integers(0, 60),
)
def test_it_is_what_a_hand_would_find_row_by_row(published, rows, max_age):
    asked = entities(*((user, ENDS[1] + hours * HOUR) for user, hours in rows))
    table = read_days(published, DAYS[0], DAYS[-1]).to_pylist()
    joined = point_in_time(published, asked, max_age=None if max_age is None else max_age * HOUR)
    for row in joined.to_pylist():
        known = [
            one
            for one in table
            if one["user_id"] == row["user_id"]
            and one["event_timestamp"] <= row["event_timestamp"]
            and (max_age is None or row["event_timestamp"] - one["event_timestamp"] <= max_age * HOUR)
        ]
        newest = max(known, key=lambda one: one["event_timestamp"], default={"score": None, "bundle_id": None})
        assert (row["score"], row["bundle_id"]) == (newest["score"], newest["bundle_id"])


def test_a_delta_table_joins_alike(pipeline, layout):
    pipeline.run(DAYS[0], ["a"], values=[0.5])
    pipeline.publish(DAYS[0], export=ExportSettings(offline="delta"))
    assert point_in_time(layout, entities(("a", ENDS[0])))["score"].to_pylist() == [0.5]


@pytest.mark.parametrize(
    ("column", "reason"), [(pa.array(["x"]), "is string"), (pa.array([ENDS[0].replace(tzinfo=None)]), "time zone")]
)
def test_a_moment_without_a_zone_is_refused(published, column, reason):
    with pytest.raises(ContractError, match=reason):
        point_in_time(published, pa.table({"user_id": ["a"], "event_timestamp": column}))


def test_a_training_set_without_users_is_refused(published):
    with pytest.raises(ContractError, match="no column user_id"):
        point_in_time(published, pa.table({"event_timestamp": pa.array(ENDS)}))


def test_a_table_without_a_day_is_an_error(layout):
    with pytest.raises(DataError, match="nothing of purchase_30d is published"):
        point_in_time(layout, entities(("a", ENDS[0])))


@pytest.mark.parametrize("ids", [pa.array([1, 2]), pa.array([b"a", b"b"])])
def test_ids_that_are_no_text_are_named(published, ids):
    users = entities(("a", ENDS[0]), ("b", ENDS[1])).set_column(0, "user_id", ids)
    with pytest.raises(ContractError, match="user_id of the training set is"):
        point_in_time(published, users)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_ids_are_text_in_any_layout(published, kind):
    users = entities(("a", ENDS[0]), ("b", ENDS[1]))
    users = users.set_column(0, "user_id", users["user_id"].cast(kind))
    assert point_in_time(published, users)["score"].to_pylist() == [0.0, 0.25 + 1 / 64]


def test_moments_may_be_finer_than_the_tables(published):
    end = int(ENDS[1].timestamp()) * 10**9
    users = pa.table(
        {"user_id": ["a", "a"], "event_timestamp": pa.array([end - 1, end + 1], pa.timestamp("ns", "UTC"))}
    )
    assert point_in_time(published, users)["score"].to_pylist() == [0.0, 0.25]


@pytest.mark.parametrize("name", ["score", "score_timestamp"])
def test_a_column_named_like_one_that_is_added_is_refused(published, name):
    users = entities(("a", ENDS[0])).append_column(name, pa.array([1.0]))
    with pytest.raises(ContractError, match=f"columns of its own named {name}"):
        point_in_time(published, users)
