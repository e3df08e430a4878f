"""`python -m benchmarks.online`: load and look up, in SQLite, in Redis, and in plain Redis hashes of one user each.

The same made-up users go to each in turn, `--rounds` times. Every store is read through its own client, in this
process; a lookup counts from the call to the decoded score. Redis is started here, on a socket, without persistence.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from benchmarks.report import LOOKUP_COLUMNS, LOOKUPS_AT_ONCE, lookup_rows
from benchmarks.table import console, save, show
from profile_assets.feature_store.buckets import ROW_SCHEMA
from profile_assets.feature_store.online import compare
from profile_assets.feature_store.online_redis import connect
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.versions import OnlineStore, Pace, Version
from profile_assets.storage.keys import key_set_of
from profile_assets.storage.layout import Layout

PLAIN = "plain Redis, a hash a user"


@dataclass(kw_only=True)
class Measured:
    """One store's numbers, a value a round; lookups in microseconds a call."""

    load_s: list[float] = field(default_factory=list)
    load_cpu_s: list[float] = field(default_factory=list)
    compare_s: list[float] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)
    one_us: list[float] = field(default_factory=list)
    many_us: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Users:
    """The users of the measurement, and what they are asked for."""

    rows: pa.Table
    asked: Sequence[str]

    def batches(self) -> list[pa.RecordBatch]:
        return list(self.rows.to_batches(max_chunksize=128 * 1024))


def main(
    users: Annotated[int, typer.Option(min=1000)] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    lookups: Annotated[int, typer.Option(min=100)] = 5_000,
    root: Annotated[Path, typer.Option(help="Where results lie.")] = Path("data/bench"),
) -> None:
    """Measure the stores of lookups."""
    made = make_users(users, lookups)
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as url:
        for number in range(rounds):
            measure(found, "SQLite", made, *sqlite(Path(folder) / str(number)))
            measure(found, "Redis, 64 users a hash", made, *redis(url))
            measure_plain(found, made, url)
            console.print(f"round {number + 1} of {rounds} is over")
    show_results(found, users)
    save(
        root / "online.json",
        {"users": users, "lookups": lookups, "stores": {name: vars(one) for name, one in found.items()}},
    )


def make_users(users: int, lookups: int) -> Users:
    """Ids of ten digits in no order, and scores; every tenth of those asked for is not there."""
    draws = np.random.default_rng(5)
    ids = [f"{number:010d}" for number in draws.permutation(users)]
    scores = pa.array(draws.random(users, dtype=np.float32))
    rows = pa.table([pa.array(ids), scores, pa.repeat("full", users)], schema=ROW_SCHEMA)
    picks = random.Random(5)
    asked = [picks.choice(ids) if n % 10 else f"missing-{n}" for n in range(lookups)]
    return Users(rows=rows, asked=asked)


Sized = tuple[OnlineStore, Callable[[], int]]


def sqlite(root: Path) -> Sized:
    """An empty embedded store, and how large it is."""
    layout = Layout(root=root, name="bench")
    return SqliteStore(layout), lambda: sum(path.stat().st_size for path in layout.online.glob("versions/*"))


def redis(url: str) -> Sized:
    """An empty shared store, and how much the server has grown since."""
    client = emptied(url)
    before = memory(client)
    return connect("bench", url), lambda: memory(client) - before


def emptied(url: str) -> Any:
    """A client of a server without a key."""
    from redis import Redis

    client = Redis.from_url(url)
    client.flushall(asynchronous=False)
    return client


def memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def measure(found: dict[str, Measured], name: str, made: Users, store: OnlineStore, size: Callable[[], int]) -> None:
    """Load, compare, look up."""
    one, version = found.setdefault(name, Measured()), version_of(made)
    with clocked(one.load_s, one.load_cpu_s):
        store.build(version, made.batches(), Pace())
    began = time.perf_counter()
    assert compare(store, version, made.batches).is_equal
    one.compare_s.append(time.perf_counter() - began)
    store.advance(version)
    one.size_bytes.append(size())
    look_up(one, made.asked, store.read)


def measure_plain(found: dict[str, Measured], made: Users, url: str) -> None:
    """What is usual: one hash a user, with score and route in it, written in pipelines of 1,000."""
    one, client = found.setdefault(PLAIN, Measured()), emptied(url)
    before = memory(client)
    with clocked(one.load_s, one.load_cpu_s):
        for batch in made.rows.to_batches(max_chunksize=1000):
            ids, scores, routes = (column.to_pylist() for column in batch.columns)
            with client.pipeline(transaction=False) as pipe:
                for user, score, route in zip(ids, scores, routes, strict=True):
                    pipe.hset(f"bench:{user}", mapping={"score": score, "route": route})
                pipe.execute()
    one.size_bytes.append(memory(client) - before)

    def read(ids: Sequence[str]) -> dict[str, float]:
        with client.pipeline(transaction=False) as pipe:
            for user in ids:
                pipe.hget(f"bench:{user}", "score")
            return {user: float(value) for user, value in zip(ids, pipe.execute(), strict=True) if value is not None}

    look_up(one, made.asked, read)


def look_up(one: Measured, asked: Sequence[str], read: Callable[[Sequence[str]], object]) -> None:
    """Each user alone, then 100 at once."""
    for user in asked:
        one.one_us.append(timed_us(read, [user]))
    for start in range(0, len(asked) - LOOKUPS_AT_ONCE + 1, LOOKUPS_AT_ONCE):
        one.many_us.append(timed_us(read, asked[start : start + LOOKUPS_AT_ONCE]))


def timed_us(read: Callable[[Sequence[str]], object], ids: Sequence[str]) -> float:
    began = time.perf_counter_ns()
    read(ids)
    return (time.perf_counter_ns() - began) / 1000


@contextlib.contextmanager
def clocked(seconds: list[float], cpu_seconds: list[float]) -> Iterator[None]:
    began, cpu_began = time.perf_counter(), time.process_time()
    yield
    seconds.append(time.perf_counter() - began)
    cpu_seconds.append(time.process_time() - cpu_began)


def version_of(made: Users) -> Version:
    day = dt.date(2026, 1, 5)
    moment = dt.datetime(2026, 1, 6, 2, tzinfo=dt.UTC)
    return Version(
        id=f"{day}-bench",
        day=day,
        content="bench",
        rows=made.rows.num_rows,
        keys=key_set_of(made.rows.column("user_id")),
        bundle_id="b-0",
        published_at=moment,
        expires_at=moment + dt.timedelta(days=3),
    )


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A server of this measurement alone."""
    socket = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with subprocess.Popen(["redis-server", *options], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            next(line for line in server.stdout if "accept connections" in line)
            yield f"unix://{socket}"
        finally:
            server.terminate()


def show_results(found: dict[str, Measured], users: int) -> None:
    """One row a store; medians over the rounds, percentiles over all lookups."""
    rows = lookup_rows({name: vars(one) for name, one in found.items()}, users)
    show(f"{users:,} users; lookups as p50 / p99", LOOKUP_COLUMNS, rows)


if __name__ == "__main__":
    typer.run(main)
