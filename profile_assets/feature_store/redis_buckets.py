"""The buckets of versions as they lie in Redis: laid out, loaded, read whole, kept and cleared.

Nothing here knows of the pointer; `online_redis` tells of the keys, and of the order in which a version comes and goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profile_assets.feature_store.buckets import Bucket, fields, num_buckets
from profile_assets.feature_store.redis_client import redis_errors
from profile_assets.feature_store.versions import Version

BUILDING_S = 600
SENTINEL = b"\xff"  # no text in UTF-8, so no id
_KEYS_AT_ONCE = 512


class RedisBuckets:
    """`client` is a redis.Redis; every key begins with `prefix`."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client, self._prefix = client, prefix

    def scan(self, version: Version) -> Iterator[list[dict[bytes, bytes]]]:
        """Every bucket by its fields, some hundred at a time; an empty one for one that is not there."""
        for keys in self.keys(version.id, num_buckets(version.rows)):
            with redis_errors(), self._client.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.hgetall(key)
                buckets = pipe.execute()
            yield buckets

    def keep(self, version: Version) -> None:
        """Take the lifetimes away. Once the meta has none no bucket gets one, so the buckets come after it, each time:
        whoever took the meta's away may not have come to them. They also come before it where it has one: who dies in
        between leaves no meta that outlives its buckets.
        """
        if self._client.ttl(self.key(version.id, "meta")) >= 0:
            self._persist(version)
        self._client.persist(self.key(version.id, "meta"))
        self._persist(version)

    def _persist(self, version: Version) -> None:
        for keys in self.keys(version.id, num_buckets(version.rows)):
            with self._client.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.persist(key)
                pipe.execute()

    def lay_out(self, version: Version, count: int) -> None:
        """Every bucket, without a user yet."""
        for keys in self.keys(version.id, count):
            with self._client.pipeline(transaction=False) as pipe:
                pipe.set(self.key(version.id, "building"), "1", ex=BUILDING_S)
                for key in keys:
                    pipe.hset(key, SENTINEL, b"")
                pipe.execute()

    def load(self, version: Version, piece: Sequence[Bucket]) -> int:
        """Some buckets with their users; how many users these are."""
        with self._client.pipeline(transaction=False) as pipe:
            # Each piece says anew that somebody is at it; first, so that a sweep never takes it for left over.
            pipe.set(self.key(version.id, "building"), "1", ex=BUILDING_S)
            for bucket in piece:
                pipe.execute_command("HSET", self.key(version.id, bucket.number), *fields(bucket))
            pipe.execute()
        return sum(len(bucket.lengths) for bucket in piece)

    def clear(self, version_id: str, count: int) -> None:
        """Take the buckets away, and the word that somebody builds them."""
        for keys in self.keys(version_id, count):
            self._client.unlink(*keys)
        self._client.unlink(self.key(version_id, "building"))

    def keys(self, version_id: str, count: int) -> Iterator[list[str]]:
        """The keys of a version's buckets, some hundred at a time."""
        for start in range(0, count, _KEYS_AT_ONCE):
            yield [self.key(version_id, number) for number in range(start, min(start + _KEYS_AT_ONCE, count))]

    def key(self, version_id: str, what: str | int) -> str:
        """The key of a bucket, by its number, or of what is said of the version."""
        return f"{self._prefix}:{version_id}:{what}"
