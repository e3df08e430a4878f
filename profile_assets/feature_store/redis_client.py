"""A Redis client with bounded waits and retries, and its errors as ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from profile_assets.errors import ProfileError, StorageError


def redis_client(url: str, *, timeout_s: float = 10.0, retries: int = 3) -> Any:
    """A client of the server at `url`, which is not asked yet. ProfileError where package or address is no good."""
    try:
        from redis import Redis
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ProfileError(
            "lookups in Redis need the package redis", remedy="pip install 'profile-assets[redis]'"
        ) from error
    try:
        return Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(ExponentialBackoff(cap=2.0, base=0.1), retries),
        )
    except ValueError as error:  # the address may hold a password: it is not repeated
        raise ProfileError("the Redis address is none", remedy="write it as redis://host:6379/0") from error


@contextlib.contextmanager
def redis_errors() -> Iterator[None]:
    """What the client raises, as errors of ours. The address is never in them."""
    from redis import exceptions

    try:
        yield
    except exceptions.AuthenticationError as error:
        raise ProfileError("Redis refused the user or password", remedy="correct the address it is given") from error
    except exceptions.RedisError as error:
        raise StorageError(
            f"Redis cannot be used: {type(error).__name__}: {error}", remedy="see that it is up, then try again"
        ) from error


def require_keeping(client: Any) -> None:
    """A server that throws keys away when it is full would lose users silently."""
    memory = client.info("memory")
    if memory.get("maxmemory") and str(memory.get("maxmemory_policy")).startswith("allkeys"):
        raise ProfileError(
            f"the Redis server may evict any key when it is full ({memory['maxmemory_policy']})",
            remedy="set its maxmemory-policy to noeviction or volatile-ttl",
        )
