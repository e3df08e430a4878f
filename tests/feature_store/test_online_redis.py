"""The shared store beside what a Redis server may do to it: refuse, evict, forget."""

from __future__ import annotations

import datetime as dt

import pytest

from profile_assets.errors import ProfileError, StorageError
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.online_redis import connect
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.layout import Layout

IDS = ["a", "b", "c"]
REDIS = ExportSettings(online=OnlineSettings(store="redis"))


def test_an_address_that_is_not_set_is_named(layout):
    with pytest.raises(ProfileError, match="PROFILE_REDIS_URL is not set"):
        open_online(layout, REDIS.online, environment={})


def test_an_address_that_is_none_is_not_repeated_for_it_may_hold_a_password():
    with pytest.raises(ProfileError) as caught:
        connect("risk", "http://user:secret@host")
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_transient_and_its_password_is_not_told(tmp_path):
    store = connect("risk", f"unix://user:secret@{tmp_path}/nobody.sock", retries=0)
    with pytest.raises(StorageError) as caught:
        store.live()
    assert "secret" not in str(caught.value)


@pytest.fixture
def server(redis_url, monkeypatch):
    """A client of the empty server that the profile names."""
    from redis import Redis

    monkeypatch.setenv("PROFILE_REDIS_URL", redis_url)
    client = Redis.from_url(redis_url)
    client.flushall()
    yield client
    client.config_set("maxmemory", 0)
    client.config_set("requirepass", "")


@pytest.mark.service("redis")
def test_a_password_that_is_refused_is_for_people_to_mend(server, redis_url):
    server.config_set("requirepass", "right")
    with pytest.raises(ProfileError, match="refused the user or password"):
        connect("risk", redis_url.replace("unix://", "unix://:wrong@"), retries=0).live()


@pytest.mark.service("redis")
def test_a_server_that_may_evict_any_key_is_refused(server, pipeline, day):
    server.config_set("maxmemory", 100_000_000)
    server.config_set("maxmemory-policy", "allkeys-lru")
    pipeline.run(day, IDS)
    with pytest.raises(ProfileError, match="allkeys-lru"):
        pipeline.publish(day, export=REDIS)
    server.config_set("maxmemory-policy", "noeviction")
    assert pipeline.publish_all(day, export=REDIS).brought.is_live


@pytest.mark.service("redis")
def test_a_server_that_is_full_leaves_the_lookups_pending(server, pipeline, day):
    pipeline.run(day, IDS)
    server.config_set("maxmemory-policy", "noeviction")
    server.config_set("maxmemory", 1)
    with pytest.raises(StorageError, match="online it is pending"):
        pipeline.publish(day, export=REDIS)
    server.config_set("maxmemory", 0)
    assert pipeline.publish_all(day, export=REDIS).brought.is_live


@pytest.mark.service("redis")
def test_a_server_that_forgot_everything_is_filled_again_by_publishing(server, pipeline, layout, day):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=REDIS)
    server.flushall()
    done = pipeline.publish_all(day, export=REDIS)
    assert (done.brought.is_built, done.brought.is_live) == (True, True)
    assert len(open_online(layout, REDIS.online).read(IDS)[1]) == 3


@pytest.mark.service("redis")
def test_every_key_carries_the_profiles_name_and_no_id(server, pipeline, day):
    pipeline.run(day, ["secret-id", "a:b", "{x}"])
    pipeline.publish(day, export=REDIS)
    keys = [key.decode() for key in server.scan_iter()]
    assert keys
    assert all(key.startswith("profile_assets:{purchase_30d}:") for key in keys)
    assert not [key for key in keys if "secret-id" in key or "a:b" in key or "{x}" in key]


@pytest.mark.service("redis")
def test_only_replaced_versions_have_a_lifetime(server, pipeline, layout, day):
    for n in range(3):
        one = day + dt.timedelta(days=n)
        pipeline.run(one, IDS)
        pipeline.publish(one, export=REDIS)
    live = open_online(Layout(root=layout.root, name=layout.name), REDIS.online).live()
    lifetimes = {key.decode(): server.ttl(key) for key in server.scan_iter("*-*")}
    assert {left for key, left in lifetimes.items() if live.id in key} == {-1}
    assert all(left > 0 for key, left in lifetimes.items() if live.id not in key)
