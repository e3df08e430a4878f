"""Days as they lie on the disk, landed, dealt, scored, judged and published, without Dagster."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa
import pytest

from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import (
    QUARANTINE_FILE,
    RAW_USERS,
    USER_SCORES,
    USER_SHARDS,
    USERS_FILE,
    Layout,
    shard_file,
)
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.share import in_share
from profile_assets.storage.stages import commit, current, describe, seal
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, record
from profile_assets.users.quarantine import SCHEMA

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
TODAY = NOW.date()
SHARDS = [shard_file(0, 2), shard_file(1, 2)]
NULL_RATES = ({"column": "age", "shard": "day", "measure": "null_rate", "observed": 0.25},)

STOPPED_BY = {RAW_USERS: "row_count_change", USER_SHARDS: "null_rates", USER_SCORES: "score_drift"}


@dataclass(frozen=True, kw_only=True)
class Days:
    """Makes days of a few users each."""

    layout: Layout

    def stage(self, stage, day, tables, made_from, **facts) -> Manifest:
        folder = self.layout.staging(stage, day)
        folder.mkdir(parents=True)
        for name, table in tables.items():
            with ParquetSink(folder / name, table.schema) as sink:
                sink.write(table)
        files = tuple(describe(folder / name) for name in tables)
        manifest = Manifest(stage=stage, day=day.isoformat(), files=files, made_from=made_from, facts=facts)
        return commit(self.layout, day, seal(self.layout, day, manifest))

    def run(self, day, ids=("a", "b", "c"), *, result="pass", landed=None, canary=None) -> None:
        """Everything up to the publication, each check with that result. `landed` are columns beside the ids; `canary`
        tells of the one that scored the users of its share.
        """
        self.layout.quarantine(day).mkdir(parents=True, exist_ok=True)
        with ParquetSink(self.layout.quarantine(day) / QUARANTINE_FILE, SCHEMA):
            pass
        ids_alone = pa.table({"user_id": pa.array(ids, pa.string())})
        users = ids_alone if landed is None else pa.table({"user_id": ids_alone["user_id"], **landed})
        scores = ids_alone.append_column("score", pa.array([n / 100 for n in range(len(ids))], pa.float32()))
        taken = (
            [False] * len(ids) if canary is None else in_share(ids_alone["user_id"], canary["share"], canary["salt"])
        )
        for name, values in (("bundle_id", ("b-1", "b-2")), ("route", ("full", "canary"))):
            scores = scores.append_column(name, pa.array([values[bool(one)] for one in taken]).dictionary_encode())
        facts = {} if canary is None else {"canary": {**canary, "bundle_id": "b-2", "rows": int(sum(taken))}}
        aside = {"quarantined": 0, "quarantined_keys": KeySet().to_json()}
        raw = self.stage(RAW_USERS, day, {USERS_FILE: users}, {}, **aside)
        dealt = {name: users.take(pa.array(range(n, len(ids), 2), pa.int64())) for n, name in enumerate(SHARDS)}
        shards = self.stage(USER_SHARDS, day, dealt, {RAW_USERS: raw.digest})
        scored = {name: scores.take(pa.array(range(n, len(ids), 2), pa.int64())) for n, name in enumerate(SHARDS)}
        self.stage(USER_SCORES, day, scored, {USER_SHARDS: shards.digest}, bundle_id="b-1", **facts)
        self.judge(day, result)

    def judge(self, day, result) -> None:
        """Record that each check of the committed stages had that result."""
        for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
            self.judge_stage(day, stage, current(self.layout, stage, day).digest, result)

    def judge_stage(self, day, stage, digest, result, *, but=None) -> None:
        """Record that each check of a stage had that result; with `but`, that one failed."""
        outcomes = tuple(
            Outcome(
                check=name,
                result="fail" if name == but else result,
                detail="so",
                table=NULL_RATES if name == "null_rates" else (),
            )
            for name in CHECKS[stage]
        )
        record(self.layout, day, StageVerdict(stage=stage, digest=digest, outcomes=outcomes))

    def rerun_stopped(self, day, stages) -> None:
        """Another run of the day, stopped at the last of these stages, which so is judged and not committed."""
        ids = pa.table({"user_id": pa.array(["a", "b", "x"], pa.string())})
        before = {}
        for stage in stages[:-1]:
            files = {USERS_FILE: ids} if stage == RAW_USERS else {SHARDS[0]: ids, SHARDS[1]: ids.slice(0, 0)}
            aside = {"quarantined": 0, "quarantined_keys": KeySet().to_json()} if stage == RAW_USERS else {}
            manifest = self.stage(stage, day, files, before, **aside)
            self.judge_stage(day, stage, manifest.digest, "pass")
            before = {stage: manifest.digest}
        self.judge_stage(day, stages[-1], "f" * 64, "pass", but=STOPPED_BY[stages[-1]])

    def publish(self, day, *, has_lookups=True, online=None, bucket=None, columns=()) -> None:
        lookups = OnlineSettings() if has_lookups else None
        export = ExportSettings(online=lookups, bucket=bucket, columns=columns)
        publish(self.layout, day, time_zone="UTC", clock=lambda: NOW, export=export, online=online)

    def published(self, *days) -> None:
        """Run and publish, in this order."""
        for day in days:
            self.run(day)
            self.publish(day)


def ago(days: int) -> dt.date:
    """The day so many days before today."""
    return TODAY - dt.timedelta(days=days)


@pytest.fixture
def layout(tmp_path) -> Layout:
    return Layout(root=tmp_path, name="risk")


@pytest.fixture
def days(layout) -> Days:
    return Days(layout=layout)


@pytest.fixture
def now() -> dt.datetime:
    return NOW


@pytest.fixture(name="ago")
def ago_fixture():
    return ago
