"""Columns and users as readers ask for them: a misspelt one is told, and a table may grow a column."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import ContractError, DataError
from profile_assets.feature_store.join import point_in_time
from profile_assets.feature_store.read import lookup, lookup_many, read_day, read_days
from profile_assets.feature_store.settings import ExportSettings
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS, USERS_FILE, shard_file

OLD, NEW = dt.date(2026, 1, 4), dt.date(2026, 1, 5)
LATE = dt.datetime(2026, 1, 9, tzinfo=dt.UTC)


@pytest.fixture(params=["parquet", "delta"])
def grown(pipeline, request):
    """Two days of the users a and b, the second with their plan beside the score."""
    pipeline.run(OLD, ["a", "b"])
    pipeline.publish(OLD, export=ExportSettings(offline=request.param))
    table = pa.table({"user_id": ["a", "b"], "plan": ["basic", None]})
    raw = pipeline.stage(RAW_USERS, NEW, {USERS_FILE: table}, {})
    split = pipeline.stage(
        USER_SHARDS, NEW, {shard_file(n, 2): table.slice(n, 1) for n in range(2)}, {RAW_USERS: raw.digest}
    )
    pipeline.judge(NEW, raw, split, pipeline.score(NEW, split, ["a", "b"], values=[0.5, 0.75]))
    pipeline.publish(NEW, export=ExportSettings(offline=request.param, columns=("plan",)))
    return pipeline.layout


def moments(*rows):
    users, times = zip(*rows, strict=True)
    return pa.table({"user_id": list(users), "event_timestamp": pa.array(times, pa.timestamp("us", tz="UTC"))})


def test_days_from_before_a_column_was_exported_have_nulls_there(grown):
    assert read_days(grown, OLD, NEW, columns=["user_id", "plan"]).to_pylist() == [
        {"user_id": user, "plan": plan, "ds": day}
        for user, plan, day in [("a", None, OLD), ("b", None, OLD), ("a", "basic", NEW), ("b", None, NEW)]
    ]
    assert read_day(grown, OLD, columns=["plan", "user_id"]).to_pylist() == [
        {"plan": None, "user_id": "a"},
        {"plan": None, "user_id": "b"},
    ]


def test_a_join_over_days_from_before_a_column_was_exported_has_nulls_there(grown):
    then = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
    joined = point_in_time(grown, moments(("a", LATE), ("a", then), ("b", LATE)), columns=["plan", "score"])
    assert joined["plan"].to_pylist() == ["basic", None, None]
    assert joined["score"].to_pylist() == [0.5, 0.0, 0.75]
    assert point_in_time(grown, moments(("a", then)), columns=["plan"])["plan"].to_pylist() == [None]


@pytest.mark.parametrize(("name", "told"), [("scor", "did you mean 'score'"), ("zz", "it has user_id, score,")])
def test_a_misspelt_column_is_told_with_what_was_meant(grown, name, told):
    for read in (
        lambda: read_day(grown, OLD, columns=[name]),
        lambda: read_days(grown, OLD, NEW, columns=["user_id", name]),
        lambda: point_in_time(grown, moments(("a", LATE)), columns=["score", name]),
    ):
        with pytest.raises(DataError, match=f"no day of purchase_30d has a column '{name}'; {told}"):
            read()


@pytest.mark.parametrize(
    ("columns", "told"), [(["score", "score"], "'score' is asked for twice"), ("score", "columns is the text 'score'")]
)
def test_a_column_that_is_named_twice_or_alone_is_told(grown, columns, told):
    for read in (
        lambda: read_day(grown, OLD, columns=columns),
        lambda: read_days(grown, OLD, NEW, columns=columns),
        lambda: point_in_time(grown, moments(("a", LATE)), columns=columns),
    ):
        with pytest.raises(DataError, match=told):
            read()


def test_the_day_may_be_asked_for_where_several_are_read(grown):
    assert read_days(grown, OLD, NEW, columns=["ds", "score"]).column_names == ["ds", "score"]
    assert read_days(grown, OLD, NEW, columns=["ds"])["ds"].to_pylist() == [OLD, OLD, NEW, NEW]
    for name in ("ds", "score_timestamp"):
        with pytest.raises(DataError, match=f"has a column '{name}'"):
            point_in_time(grown, moments(("a", LATE)), columns=[name])


def test_a_join_may_add_any_column_of_the_table_or_none(grown):
    joined = point_in_time(grown, moments(("a", LATE)), columns=["published_at"])
    assert joined["published_at"].to_pylist() == read_day(grown, NEW)["published_at"].to_pylist()[:1]
    assert point_in_time(grown, moments(("a", LATE)), columns=[]).column_names[2:] == ["score_timestamp"]


def test_a_training_set_with_two_columns_of_users_is_refused(grown):
    twice = pa.table([["a"], ["b"], pa.array([LATE])], ["user_id", "user_id", "event_timestamp"])
    with pytest.raises(ContractError, match="user_id more than once"):
        point_in_time(grown, twice)


def test_ids_of_a_training_set_may_be_views_of_text(grown):
    users = moments(("a", LATE)).set_column(0, "user_id", pa.array(["a"], pa.string_view()))
    assert point_in_time(grown, users)["score"].to_pylist() == [0.5]


def test_moments_that_no_day_can_have_are_told(grown):
    seconds = pa.table({"user_id": ["a"], "event_timestamp": pa.array([2**60], pa.timestamp("s", tz="UTC"))})
    with pytest.raises(ContractError, match="microseconds cannot hold"):
        point_in_time(grown, seconds)
    assert point_in_time(grown, moments(("a", LATE)), max_age=dt.timedelta.max)["score"].to_pylist() == [0.5]


@pytest.mark.parametrize(
    ("ids", "told"), [([5], "the id 5 is int"), ([None], "is NoneType"), ([b"a"], "is bytes"), ("ab", "one text 'ab'")]
)
def test_an_id_that_is_no_text_is_told(grown, ids, told):
    with pytest.raises(DataError, match=told):
        lookup_many(grown, ids)


def test_half_a_surrogate_pair_is_nobody(grown):
    assert lookup(grown, "\ud83d") is None
    assert set(lookup_many(grown, ["a", "\ud83d"])) == {"a", "\ud83d"}
