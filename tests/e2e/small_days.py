"""A small score of its own, two days of it published, and the process in which its days run and die.

Two shards and some dozens of users; a network that nobody trained. The source of the newer day has been replaced since
it was published, so that running it again changes every place there is.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.read import read_day
from profile_assets.features.spec import FeatureSettings, fit_spec
from profile_assets.models.bundle import write_bundle
from profile_assets.models.network import build_network
from profile_assets.models.registry import set_first_stable
from profile_assets.models.settings import NetworkSettings
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.published import published_days, read_record
from profile_assets.storage.stages import require

BEFORE, DAY = dt.date(2026, 1, 4), dt.date(2026, 1, 5)
PROFILE = """
name = "small"
time_zone = "Europe/Berlin"
start_day = 2026-01-01
[source]
path = "users/{{day}}"
[contract]
id = "user_id"
columns = [{{ name = "age", type = "float64" }}, {{ name = "plan", type = "string" }}]
[model]
features = [{{ name = "age" }}, {{ name = "plan" }}]
embedding_dim = 2
hidden = [8]
[shards]
count = 2
[scoring]
batch_rows = 256
device = "cpu"
workers = {workers}
[quality]
max_shard_skew = 2.0
max_unknown_rate = 1.0
[export]
columns = ["age"]
"""
# Nothing may start a thread in the process that forks.
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def users(first: int, last: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    rows = last - first
    return pa.table(
        {
            "user_id": [f"user-{number:03d}" for number in range(first, last)],
            "age": draw.normal(40, 10, rows),
            "plan": draw.choice(["free", "paid"], rows),
        }
    )


OLD, NEW = users(0, 40, seed=1), users(10, 44, seed=2)
EVERYBODY = sorted({*OLD["user_id"].to_pylist(), *NEW["user_id"].to_pylist()})


@dataclass(frozen=True)
class State:
    """What a root has of the day: the rows that readers see, single users looked up, and what the stages say."""

    rows: pa.Table
    online: dict[str, float]
    digests: dict[str, str]
    before: bytes


@dataclass(frozen=True)
class SmallDays:
    """`start` is the root to copy; its days run in `process`."""

    process: subprocess.Popen[str]
    start: Path
    day: dt.date = DAY
    before: dt.date = BEFORE

    def copy(self, root: Path) -> Path:
        shutil.copytree(self.start, root)
        return root

    def layout(self, root: Path) -> Layout:
        return Layout(root=root, name="small")

    def run(self, root: Path, *, day: dt.date = DAY, through: str = "rooms", **when: Any) -> dict[str, Any]:
        """Run a day; see `dying_days.py` for what `when` may say and what is answered."""
        return self.run_all([(root, {"day": day.isoformat(), "through": through, **when})])[0]

    def run_all(self, runs: list[tuple[Path, dict[str, Any]]]) -> list[dict[str, Any]]:
        """Run days side by side, each on a root of its own."""
        return self.ask(
            [{"day": DAY.isoformat(), "through": "rooms", **when, "root": str(root)} for root, when in runs]
        )

    def run_together(self, root: Path, *days: dt.date) -> list[dict[str, Any]]:
        """Run days in processes of their own that begin at the same moment."""
        return self.ask([{"root": str(root), "day": day.isoformat(), "through": "rooms"} for day in days])

    def ask(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(requests), file=self.process.stdin, flush=True)
        return list(json.loads(self.process.stdout.readline()))

    def state(self, root: Path) -> State:
        layout = self.layout(root)
        return State(
            rows=self.rows(root),
            online=self.looked_up(root),
            digests={stage: require(layout, stage, DAY).digest for stage in (RAW_USERS, USER_SHARDS, USER_SCORES)},
            before=layout.offline_part(BEFORE).read_bytes(),
        )

    def rows(self, root: Path) -> pa.Table:
        return read_day(self.layout(root), DAY).drop_columns(["published_at"])

    def looked_up(self, root: Path) -> dict[str, float]:
        answer = SqliteStore(self.layout(root)).read(EVERYBODY)
        assert answer is not None
        return {user: record.score for user, record in answer[1].items()}

    def leftovers(self, root: Path) -> list[Path]:
        return [path for path in self.layout(root).staging_root.rglob("*") if path.is_file()]

    def require_whole(self, root: Path, wanted: State) -> None:
        """The day is as it would be had nothing happened to it, and nothing lies about."""
        layout = self.layout(root)
        assert self.state(root) == wanted
        record = read_record(layout, DAY)
        assert record is not None
        assert {name: one.state for name, one in record.targets.items()} == {"offline": "done", "online": "done"}
        assert published_days(layout) == [BEFORE, DAY]
        assert self.leftovers(root) == []

    def put_source(self, root: Path, day: dt.date, table: pa.Table = NEW) -> None:
        folder = root / "users" / day.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        with ParquetSink(folder / "part-0.parquet", table.schema) as sink:
            sink.write(table)
        (folder / "_SUCCESS").touch()


@contextmanager
def small_days(start: Path) -> Iterator[SmallDays]:
    """The root at `start`, made, and the process."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("dying_days.py"))],
        env={**os.environ, **ONE_THREAD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        small = SmallDays(process, start)
        for workers in (1, 2):
            (start / f"profile-{workers}.toml").write_text(PROFILE.format(workers=workers), encoding="utf-8")
        put_model(small.layout(start))
        for day in (BEFORE, DAY):
            small.put_source(start, day, OLD)
            assert small.run(start, day=day)["status"] == 0
        small.put_source(start, DAY)
        yield small
        process.kill()


def put_model(layout: Layout) -> None:
    settings = NetworkSettings(embedding_dim=2, hidden=(8,))
    spec = fit_spec([FeatureSettings(name="age"), FeatureSettings(name="plan")], OLD)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        network = build_network(settings, spec)
        for weight in network.parameters():
            weight += 0.1 * torch.randn_like(weight)
    said: dict[str, Any] = {"metrics": {}, "data_snapshot": {}, "provenance": {}}
    bundle_id = write_bundle(
        layout.models,
        network=network.eval(),
        network_settings=settings,
        spec=spec,
        schema=OLD.schema,
        staging=layout.scratch("models"),
        **said,
    )
    set_first_stable(layout, bundle_id, "for these tests")
