"""Days of which a canary scored a share, as readers see them: each row and each lookup names its own bundle."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import AccountingError, DataError
from profile_assets.feature_store.lookups import lookup
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.read import read_day
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, shard_file
from profile_assets.storage.published import read_part_record

IDS = ["a", "b", "0", "-1", "Zoë"]
TAKEN = {"b", "Zoë"}
NOW = dt.datetime(2026, 1, 6, 2, 30, tzinfo=dt.UTC)
SQLITE = ExportSettings(online=OnlineSettings())


@pytest.fixture
def scored(pipeline, day):
    """A judged day of which `b-2` scored the users TAKEN, unless told otherwise."""

    def run(*, taken=TAKEN, told=2, routes=None):
        raw = pipeline.land(day, IDS)
        shards = pipeline.split(day, raw, IDS)
        table = pa.table(
            {
                "user_id": IDS,
                "score": pa.array([n / 8 for n in range(len(IDS))], pa.float32()),
                "bundle_id": pa.array(["b-2" if user in taken else "b-1" for user in IDS]).dictionary_encode(),
                "route": pa.array(
                    routes or ["canary" if user in TAKEN else "full" for user in IDS]
                ).dictionary_encode(),
            }
        )
        tables = {shard_file(n, 2): table.take(pa.array(range(n, len(IDS), 2), pa.int64())) for n in (0, 1)}
        facts = {"bundle_id": "b-1", "canary": {"bundle_id": "b-2", "share": 0.4, "salt": "s", "rows": told}}
        scores = pipeline.stage(USER_SCORES, day, tables, {USER_SHARDS: shards.digest}, **facts)
        pipeline.judge(day, raw, shards, scores)

    return run


def test_each_row_and_each_lookup_names_the_bundle_of_its_score(scored, pipeline, layout, day):
    scored()
    pipeline.publish(day, export=SQLITE)
    rows = {row["user_id"]: (row["bundle_id"], row["route"]) for row in read_day(layout, day).to_pylist()}
    assert rows == {user: ("b-2", "canary") if user in TAKEN else ("b-1", "full") for user in IDS}
    answers = lookup(open_online(layout, SQLITE.online), [*IDS, "nobody"], now=NOW)
    assert {user: answers[user].bundle_id for user in IDS} == {user: row[0] for user, row in rows.items()}
    assert (answers["b"].route, answers["b"].score, answers["nobody"].bundle_id) == ("canary", 1 / 8, "b-1")
    assert read_part_record(layout, day).canary == {"bundle_id": "b-2", "share": 0.4, "salt": "s", "rows": 2}


def test_a_bundle_on_a_route_that_is_not_its_own_is_not_published(scored, pipeline, day):
    scored(taken={"b", "Zoë", "a"})
    with pytest.raises(DataError, match="has scores of b-2 beside b-1, or on a route that is not theirs"):
        pipeline.publish(day)


def test_neither_are_the_canarys_users_where_they_are_more_or_fewer_than_were_scored(scored, pipeline, day):
    scored(told=3)
    with pytest.raises(AccountingError, match="has 2 scores of the canary, 3 were to be published"):
        pipeline.publish(day)


def test_a_day_without_a_canary_has_no_such_route(pipeline, day):
    pipeline.run(day, IDS)
    record = pipeline.publish(day)
    assert record.canary is None
    assert "canary" not in record.to_json()
