"""The shared store beside deaths between its commands, other processes in between, and buckets that were lost."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import CorruptError, StorageError
from profile_assets.feature_store.buckets import ROW_SCHEMA
from profile_assets.feature_store.lookups import lookup
from profile_assets.feature_store.online import rollback
from profile_assets.feature_store.online_redis import RedisStore, connect
from profile_assets.feature_store.versions import Pace, Version
from profile_assets.storage.keys import key_set_of

pytestmark = pytest.mark.service("redis")

DAY = dt.date(2026, 1, 5)
NOW = dt.datetime(2026, 1, 6, tzinfo=dt.UTC)
MANY = [f"user-{n}" for n in range(300)]


def batch(ids):
    columns = {"user_id": ids, "score": [0.5] * len(ids), "route": ["full"] * len(ids)}
    return pa.RecordBatch.from_pydict(columns, schema=ROW_SCHEMA)


def version(ids, day=DAY):
    return Version(
        id=f"{day}-1",
        day=day,
        content="c",
        rows=len(ids),
        keys=key_set_of(pa.array(ids, pa.string())),
        bundle_id="b-1",
        published_at=NOW,
        expires_at=NOW + dt.timedelta(days=3),
    )


def built(store, ids, day=DAY):
    made = version(ids, day)
    store.build(made, [batch(ids)], Pace())
    return made


@pytest.fixture
def client(redis_url):
    from redis import Redis

    client = Redis.from_url(redis_url)
    client.flushall()
    return client


@pytest.fixture
def store(client):
    return RedisStore("risk", client)


def dying_after(redis_url, command):
    """A client whose connection is lost, once, just after that command of its."""
    from redis import Redis
    from redis.exceptions import ConnectionError as LostError

    class Dying(Redis):
        is_dead = False

        def execute_command(self, *args, **options):
            answer = super().execute_command(*args, **options)
            if args[0] == command and not self.is_dead:
                self.is_dead = True
                raise LostError("the connection was lost")
            return answer

    return Dying.from_url(redis_url)


def test_a_rollback_that_died_while_it_took_lifetimes_away_leaves_none_once_it_is_repeated(client, store, redis_url):
    first = built(store, MANY)
    store.advance(first)
    newer = built(store, MANY, DAY + dt.timedelta(days=1))
    store.advance(newer)
    store.retire(first, 60)
    with pytest.raises(StorageError, match="connection was lost"):
        rollback(RedisStore("risk", dying_after(redis_url, "PERSIST")), keep_s=60)
    assert store.live() == newer
    rollback(store, keep_s=60)
    assert store.live() == first
    keys = list(client.scan_iter(f"*:{first.id}:*"))
    assert len(keys) == 6
    assert {client.ttl(key) for key in keys} == {-1}


def test_a_sweep_before_the_first_rows_does_not_take_a_build_for_left_over(store, redis_url):
    made = version(MANY)

    def rows():
        connect("risk", redis_url).sweep()
        yield batch(MANY)

    store.build(made, rows(), Pace())
    assert [held.version for held in store.held()] == [made]


def test_a_build_that_was_swept_on_the_way_is_listed_all_the_same_and_goes(client, store, redis_url):
    made = version(MANY)

    def rows():
        client.delete(f"profile_assets:{{risk}}:{made.id}:building")  # as after a long pause
        connect("risk", redis_url).sweep()
        yield batch(MANY)

    store.build(made, rows(), Pace())
    assert [held.version for held in store.held()] == [made]
    store.remove(made)
    assert list(client.scan_iter()) == []


def test_users_of_a_bucket_that_was_lost_are_an_error_and_not_missing(client, store):
    made = built(store, MANY)
    store.advance(made)
    assert {answer.state for answer in lookup(store, MANY, now=NOW).values()} == {"found"}
    assert lookup(store, ["nobody"], now=NOW)["nobody"].state == "missing"
    client.delete(f"profile_assets:{{risk}}:{made.id}:2")
    with pytest.raises(CorruptError, match="lost a bucket"):
        lookup(store, MANY, now=NOW)
    with pytest.raises(CorruptError, match="lost a bucket"):
        list(store.scan(made))


@pytest.mark.parametrize("ids", [[], ["a"], [f"{n}" for n in range(65)]])
def test_a_bucket_without_users_is_there_all_the_same(store, ids):
    store.advance(built(store, ids))
    assert {answer.state for answer in lookup(store, [f"x{n}" for n in range(50)], now=NOW).values()} == {"missing"}
