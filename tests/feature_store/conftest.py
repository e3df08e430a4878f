"""Days brought to the door of publication: landed, dealt into two shards, scored and judged, as they lie on disk."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from profile_assets.feature_store.publish import publish
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, USERS_FILE, Layout, shard_file
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import commit, describe, seal
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, record

ZONE = "Europe/Berlin"
NOW = dt.datetime(2026, 1, 6, 2, 30, 0, 123456, tzinfo=dt.UTC)
SHARDS = [shard_file(0, 2), shard_file(1, 2)]
NULL_RATES = ({"column": "age", "shard": "day", "measure": "null_rate", "observed": 0.25},)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Each step writes what its stage would; `score` gives user n of a day the score n / 100."""

    layout: Layout

    def stage(self, stage, day, tables, made_from, **facts) -> Manifest:
        folder = self.layout.staging(stage, day)
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            with ParquetSink(folder / name, table.schema) as sink:
                sink.write(table)
        files = tuple(describe(folder / name) for name in tables)
        manifest = Manifest(stage=stage, day=day.isoformat(), files=files, made_from=made_from, facts=facts)
        return commit(self.layout, day, seal(self.layout, day, manifest))

    def land(self, day, ids: Sequence[str]) -> Manifest:
        return self.stage(RAW_USERS, day, {USERS_FILE: pa.table({"user_id": pa.array(ids, pa.string())})}, {})

    def split(self, day, raw: Manifest, ids: Sequence[str]) -> Manifest:
        tables = {name: pa.table({"user_id": pa.array(ids[n::2], pa.string())}) for n, name in enumerate(SHARDS)}
        return self.stage(USER_SHARDS, day, tables, {RAW_USERS: raw.digest})

    def score(self, day, shards: Manifest, ids, *, values=None, bundle="b-1", bundles=None) -> Manifest:
        values = [n / 100 for n in range(len(ids))] if values is None else values
        table = pa.table(
            {
                "user_id": pa.array(ids, pa.string()),
                "score": pa.array(values, pa.float32()),
                "bundle_id": pa.array(bundles or [bundle] * len(ids), pa.string()).dictionary_encode(),
            }
        )
        tables = {name: table.take(pa.array(range(n, len(ids), 2), pa.int64())) for n, name in enumerate(SHARDS)}
        facts = {"bundle_id": bundle, "unknown": {}, "unknown_by_shard": {}}
        return self.stage(USER_SCORES, day, tables, {USER_SHARDS: shards.digest}, **facts)

    def judge(self, day, *manifests: Manifest, **changed) -> None:
        """Record that each stage passed all its checks but those named, which have the result given."""
        for manifest in manifests:
            outcomes = tuple(
                Outcome(
                    check=check,
                    result=changed.get(check, "pass"),
                    detail="as the test says",
                    table=NULL_RATES if check == "null_rates" else (),
                )
                for check in CHECKS[manifest.stage]
            )
            record(self.layout, day, StageVerdict(stage=manifest.stage, digest=manifest.digest, outcomes=outcomes))

    def run(self, day, ids, **scored) -> tuple[Manifest, Manifest, Manifest]:
        """Everything up to the publication, judged and passed."""
        raw = self.land(day, ids)
        shards = self.split(day, raw, ids)
        scores = self.score(day, shards, ids, **scored)
        self.judge(day, raw, shards, scores)
        return raw, shards, scores

    def publish(self, day, *, now=NOW, **targets):
        return self.publish_all(day, now=now, **targets).record

    def publish_all(self, day, *, now=NOW, **targets):
        return publish(self.layout, day, time_zone=ZONE, clock=lambda: now, **targets)


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path, name="purchase_30d")


@pytest.fixture
def day():
    return dt.date(2026, 1, 5)


@pytest.fixture
def pipeline(layout):
    return Pipeline(layout=layout)
