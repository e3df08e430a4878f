"""The shared store: hashes of about 64 users in Redis, every key under the profile's name, ids only ever fields.

    profile_assets:{<name>}:live              the live version, as JSON: the pointer
    profile_assets:{<name>}:versions          hash: version id -> how many buckets it has, from before its first one
    profile_assets:{<name>}:<id>:building     there, with a lifetime, while somebody builds that version
    profile_assets:{<name>}:<id>:meta         the version as JSON, written last: with it, every bucket is there
    profile_assets:{<name>}:<id>:<number>     a bucket: user id -> value (see `buckets`), and SENTINEL

Comparing and setting is one script. A version is let go in two steps, its meta first, and `advance` refuses one whose
meta has a lifetime: so no bucket of a live version ever carries one. Only replaced versions have lifetimes. A bucket
without users is written too, so that one which is not there was lost, and its users are not taken for missing.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from profile_assets.errors import CorruptError, StorageError
from profile_assets.feature_store.buckets import (
    Record,
    bucket_number,
    deal,
    decode_rows,
    decode_value,
    num_buckets,
    pieces,
)
from profile_assets.feature_store.redis_buckets import BUILDING_S, SENTINEL, RedisBuckets
from profile_assets.feature_store.redis_client import redis_client, redis_errors, require_keeping
from profile_assets.feature_store.redis_scripts import ADVANCE, FORGET, REPLACE, RETIRE
from profile_assets.feature_store.versions import Held, Pace, Switch, Version

GRACE_S = 3600  # buckets outlive their meta, so that what has a meta is whole
_TRIES = 10


@dataclass(frozen=True, kw_only=True)
class _Pointer:
    """The pointer as it was last seen, and what it says."""

    text: bytes | None = None
    version: Version | None = None


class RedisStore:
    """See `versions.OnlineStore`; `client` is a redis.Redis. Nothing is asked of the server before the first call."""

    def __init__(self, name: str, client: Any) -> None:
        self._client = client
        self._prefix = f"profile_assets:{{{name}}}"
        self._live, self._names = f"{self._prefix}:live", f"{self._prefix}:versions"
        self._buckets = RedisBuckets(client, self._prefix)
        self._pointer = _Pointer()
        scripts = (ADVANCE, REPLACE, RETIRE, FORGET)
        self._advance, self._replace, self._retire, self._forget = map(client.register_script, scripts)

    def where(self) -> str:
        return f"Redis under {self._prefix}"

    def build(self, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None:
        count = num_buckets(version.rows)
        with redis_errors():
            require_keeping(self._client)
            # A sweep takes a name for left over unless somebody is seen to be at it.
            self._client.set(self._buckets.key(version.id, "building"), "1", ex=BUILDING_S)
            self._client.hset(self._names, version.id, str(count))
            self._buckets.lay_out(version, count)
            for buckets in deal(rows, count):
                for piece in pieces(buckets, pace.piece_rows):
                    pace.loaded(self._buckets.load(version, piece))
            with self._client.pipeline() as pipe:
                pipe.hset(self._names, version.id, str(count))
                pipe.set(self._buckets.key(version.id, "meta"), json.dumps(version.to_json()))
                pipe.delete(self._buckets.key(version.id, "building"))
                pipe.execute()

    def held(self) -> list[Held]:
        with redis_errors():
            names = [name.decode() for name in self._client.hkeys(self._names)]
            with self._client.pipeline() as pipe:
                for name in names:
                    pipe.get(self._buckets.key(name, "meta"))
                    pipe.ttl(self._buckets.key(name, "meta"))
                answers = pipe.execute()
        now = dt.datetime.now(dt.UTC)
        return [
            Held(version=_version(meta), until=None if left < 0 else now + dt.timedelta(seconds=left))
            for meta, left in zip(answers[::2], answers[1::2], strict=True)
            if meta is not None
        ]

    def live(self) -> Version | None:
        with redis_errors():
            return self._remember(self._client.get(self._live)).version

    def serves(self) -> Version | None:
        live = self.live()
        with redis_errors():
            if live is not None and not self._client.exists(self._buckets.key(live.id, "meta")):
                raise CorruptError(
                    f"{self.where()} points to {live.id}, which is gone", remedy="publish the newest day again"
                )
        return live

    def scan(self, version: Version) -> Iterator[pa.RecordBatch]:
        for buckets in self._buckets.scan(version):
            if any(bucket.pop(SENTINEL, None) is None for bucket in buckets):
                raise self._lost(version)
            ids = pa.array([user for bucket in buckets for user in bucket], pa.binary()).cast(pa.string())
            yield decode_rows(ids, b"".join(value for bucket in buckets for value in bucket.values()))

    def read(self, ids: Sequence[str]) -> tuple[Version, dict[str, Record]] | None:
        """One round trip: the version that was live last time is read, and the pointer after it.

        Where that one is live still, the answer is its; else the version that is live now is read.
        """
        for _ in range(_TRIES):
            pointer = self._pointer
            if pointer.version is None:
                with redis_errors():
                    pointer = self._remember(self._client.get(self._live))
            if pointer.version is None:
                return None
            is_there, found, now = self._fetch(pointer.version, ids)
            if is_there and now == pointer.text:
                if found is None:
                    raise self._lost(pointer.version)
                return pointer.version, found
            self._remember(now)
        raise CorruptError(
            f"{self.where()} points to a version that is not there", remedy="publish the newest day again"
        )

    def advance(self, version: Version) -> Switch:
        arguments = [json.dumps(version.to_json()), version.day.isoformat()]
        for _ in range(_TRIES):
            with redis_errors():
                self._buckets.keep(version)
                happened, live = self._advance(keys=[self._live, self._buckets.key(version.id, "meta")], args=arguments)
            before = _version(live) if live else None
            if happened == b"newer":
                return Switch(before=before, after=before)
            if happened == b"done":
                return Switch(before=before, after=version)
            _require_there(version, happened)
        raise StorageError(f"{version.id} is retired again and again", remedy="publish that day again")

    def replace(self, seen: Version, to: Version | None) -> bool:
        meta = self._buckets.key((to or seen).id, "meta")
        for _ in range(_TRIES):
            with redis_errors():
                if to is not None:
                    self._buckets.keep(to)
                value = "" if to is None else json.dumps(to.to_json())
                happened = self._replace(keys=[self._live, meta], args=[seen.id, value])
            if happened in (b"done", b"changed"):
                return bool(happened == b"done")
            _require_there(to or seen, happened)
        raise StorageError(f"{(to or seen).id} is retired again and again", remedy="try again")

    def retire(self, version: Version, keep_s: int) -> None:
        fixed, lifetimes = [self._live, self._buckets.key(version.id, "meta")], [version.id, keep_s, keep_s + GRACE_S]
        with redis_errors():
            if self._retire(keys=fixed, args=lifetimes):
                for keys in self._buckets.keys(version.id, num_buckets(version.rows)):
                    if not self._retire(keys=[*fixed, *keys], args=lifetimes):
                        return

    def remove(self, version: Version) -> None:
        with redis_errors():
            if self._forget(keys=[self._live, self._buckets.key(version.id, "meta")], args=[version.id]):
                self._clear(version.id, num_buckets(version.rows))

    def sweep(self) -> None:
        """Clear versions that have no meta (any more) and that nobody builds."""
        with redis_errors():
            for name, count in self._client.hgetall(self._names).items():
                version_id = name.decode()
                if not self._client.exists(
                    self._buckets.key(version_id, "meta"), self._buckets.key(version_id, "building")
                ):
                    self._clear(version_id, int(count))

    def _remember(self, text: bytes | None) -> _Pointer:
        """The pointer, parsed only when it is another one."""
        if text != self._pointer.text:
            self._pointer = _Pointer(text=text, version=_version(text) if text else None)
        return self._pointer

    def _fetch(self, version: Version, ids: Sequence[str]) -> tuple[bool, dict[str, Record] | None, bytes | None]:
        """What the version has of these users, None where a bucket is lost; before it, whether it was whole
        afterwards; last, the pointer then.

        A version goes meta first, so what was read before its meta was seen was read from all of it.
        """
        wanted: dict[int, list[str]] = defaultdict(list)
        count = num_buckets(version.rows)
        for user in ids:
            wanted[bucket_number(user.encode(), count)].append(user)
        with redis_errors(), self._client.pipeline(transaction=False) as pipe:
            for number, users in wanted.items():
                pipe.hmget(self._buckets.key(version.id, number), [*users, SENTINEL])
            pipe.exists(self._buckets.key(version.id, "meta"))
            pipe.get(self._live)
            *answers, is_there, pointer = pipe.execute()
        if None in (answer.pop() for answer in answers):
            return bool(is_there), None, pointer
        pairs = zip((user for users in wanted.values() for user in users), (v for a in answers for v in a), strict=True)
        return bool(is_there), {user: decode_value(value) for user, value in pairs if value is not None}, pointer

    def _clear(self, version_id: str, count: int) -> None:
        self._buckets.clear(version_id, count)
        self._client.hdel(self._names, version_id)

    def _lost(self, version: Version) -> CorruptError:
        return CorruptError(f"{self.where()} lost a bucket of {version.id}", remedy=f"publish {version.day} again")


def connect(name: str, url: str, *, timeout_s: float = 10.0, retries: int = 3) -> RedisStore:
    """The store of a profile on the server at `url`. ProfileError where the package or the address is no good."""
    return RedisStore(name, redis_client(url, timeout_s=timeout_s, retries=retries))


def _version(text: Any) -> Version:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CorruptError(f"Redis holds no version: {error}", remedy="publish the newest day again") from error
    return Version.from_json(value)


def _require_there(version: Version, happened: bytes) -> None:
    if happened == b"gone":
        raise StorageError(f"the version {version.id} is gone", remedy=f"publish {version.day} again")
