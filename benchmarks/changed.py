"""Two days of the generated users of which the second differs from the first for a share of them, ready to be scored.

The first day is scored incrementally and published, the second one landed and split. Every changed user has another
number; nobody comes or goes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import FIRST_DAY, World, make_bundle, prepare
from profile_assets.feature_store.publish import publish
from profile_assets.models.settings import NetworkSettings
from profile_assets.scoring.day import score_day
from profile_assets.scoring.settings import Mode, ScoringSettings
from profile_assets.shards.split import split
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import ParquetSink, iter_batches, open_parquet
from profile_assets.storage.stages import commit, current
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, record
from profile_assets.users.day_folders import PART_FILE, day_folder
from profile_assets.users.land import commit_landing, land

SECOND_DAY = FIRST_DAY + dt.timedelta(days=1)
CHANGED = 0.05
LARGE_NETWORK = NetworkSettings(hidden=(1280, 768))
"""One whose forward costs about 20 us a user on a core."""


def settings(mode: Mode) -> ScoringSettings:
    """How the second day is scored, either way."""
    return ScoringSettings(device="cpu", workers=1, mode=mode)


def prepare_changed(root: Path, *, users: int, shards: int, network: NetworkSettings | None = None) -> World:
    """The world at `root`, always made anew but for what the first day's users are."""
    shutil.rmtree(root / "load", ignore_errors=True)
    (root / "world.json").unlink(missing_ok=True)
    world = prepare(root, users=users, shards=shards)
    if network is not None:
        shutil.rmtree(world.layout.models)
        make_bundle(world, network)
    layout, deployment = world.layout, world.deployment
    commit(layout, FIRST_DAY, score_day(layout, FIRST_DAY, world.bundle, settings("incremental")))
    _publish(layout, FIRST_DAY)
    _write_second_day(world)
    commit_landing(layout, SECOND_DAY, land(deployment.source, deployment.contract, SECOND_DAY, layout))
    commit(layout, SECOND_DAY, split(layout, SECOND_DAY, shards))
    return dataclasses.replace(world, days=(FIRST_DAY, SECOND_DAY))


def _publish(layout: Layout, day: dt.date) -> None:
    """Publish a day whose checks are not what is measured."""
    for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
        manifest = current(layout, stage, day)
        assert manifest is not None
        passed = tuple(Outcome(check=check, result="pass", detail="not looked at") for check in CHECKS[stage])
        record(layout, day, StageVerdict(stage=stage, digest=manifest.digest, outcomes=passed))
    publish(layout, day, time_zone="UTC", clock=lambda: dt.datetime.now(dt.UTC))


def _write_second_day(world: World) -> None:
    folder = day_folder(world.root / "generated" / "users", SECOND_DAY)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world.source_file.parent, folder, ignore=shutil.ignore_patterns(PART_FILE))
    with open_parquet(world.source_file) as file:
        schema = file.schema_arrow.remove_metadata()
    with ParquetSink(folder / PART_FILE, schema) as sink:
        for batch in _changed(world.source_file):
            sink.write(batch)


def _changed(path: Path) -> Iterator[pa.RecordBatch]:
    draw = np.random.default_rng(5)
    for batch in iter_batches(path):
        numbers = batch.column("number_1").to_numpy(zero_copy_only=False)
        is_changed = draw.random(len(numbers)) < CHANGED
        drawn = np.where(is_changed, draw.normal(size=len(numbers)), numbers)
        column = pa.array(drawn, pa.float64(), mask=np.isnan(drawn))
        yield batch.set_column(batch.schema.get_field_index("number_1"), "number_1", column)
