"""Users, a bundle with a real network, and days of shards to score."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.read import read_day
from profile_assets.features.spec import FeatureSettings, FeatureSpec, fit_spec
from profile_assets.models.bundle import write_bundle
from profile_assets.models.network import build_network
from profile_assets.models.settings import NetworkSettings
from profile_assets.scoring.day import score_day
from profile_assets.scoring.settings import Mode, ScoringSettings
from profile_assets.shards.split import split
from profile_assets.storage import atomic
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, USERS_FILE, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import Staged, commit, current, describe, seal
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, record

MakeBundle = Callable[..., Path]
MakeUsers = Callable[..., pa.Table]
Deal = Callable[[pa.Table, int], Manifest]


@pytest.fixture(scope="session")
def make_users() -> MakeUsers:
    def make(rows: int, *, seed: int = 5) -> pa.Table:
        draw = np.random.default_rng(seed)
        return pa.table(
            {
                "user_id": pa.array([f"{number:06d}" for number in range(rows)], pa.string()),
                "age": pa.array(draw.normal(40, 10, rows), mask=draw.random(rows) < 0.05),
                "orders": pa.array(draw.poisson(3, rows), pa.int32()),
                "spent": pa.array(draw.lognormal(3, 1, rows), pa.float32(), mask=draw.random(rows) < 0.05),
                "plan": pa.array(
                    draw.choice(["free", "paid", "gold"], rows), pa.string(), mask=draw.random(rows) < 0.05
                ),
                "city": pa.array([f"city {place}" for place in draw.integers(0, 500, rows)], pa.string()),
                "comment": pa.array(["not a feature"] * rows, pa.string()),
            }
        )

    return make


@pytest.fixture(scope="session")
def spec(make_users: MakeUsers) -> FeatureSpec:
    features = [
        FeatureSettings(name="age"),
        FeatureSettings(name="orders", transform="log1p"),
        FeatureSettings(name="spent", transform="log1p"),
        FeatureSettings(name="plan"),
        FeatureSettings(name="city", max_vocabulary=400),
    ]
    return fit_spec(features, make_users(4000, seed=1))


@pytest.fixture(scope="session")
def make_bundle(tmp_path_factory: pytest.TempPathFactory, make_users: MakeUsers, spec: FeatureSpec) -> MakeBundle:
    """Writes a bundle of the full network, with weights that all matter."""
    root = tmp_path_factory.mktemp("bundles")

    def make(*, seed: int = 3, spec: FeatureSpec = spec) -> Path:
        settings = NetworkSettings()
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            network = build_network(settings, spec)
            for weight in network.parameters():
                weight += 0.1 * torch.randn_like(weight)
        bundle_id = write_bundle(
            root / "models",
            network=network.eval(),
            network_settings=settings,
            spec=spec,
            schema=make_users(1).schema,
            metrics={},
            data_snapshot={},
            provenance={},
            staging=root / "staging",
        )
        return root / "models" / bundle_id

    return make


@pytest.fixture(scope="session")
def bundle_path(make_bundle: MakeBundle) -> Path:
    return make_bundle()


@pytest.fixture(scope="session")
def small() -> ScoringSettings:
    """The smallest shape, here."""
    return ScoringSettings(batch_rows=256, device="cpu", workers=1)


@pytest.fixture
def day() -> dt.date:
    return dt.date(2026, 1, 5)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path, name="purchase")


@pytest.fixture
def deal(layout: Layout, day: dt.date) -> Deal:
    """Commits a table as the day's raw_users, and its user_shards."""

    def deal(table: pa.Table, num_shards: int) -> Manifest:
        return deal_out(layout, day, table, num_shards)

    return deal


def deal_out(layout: Layout, day: dt.date, table: pa.Table, num_shards: int) -> Manifest:
    folder = atomic.empty_folder(layout.staging(RAW_USERS, day))
    with ParquetSink(folder / USERS_FILE, table.schema) as sink:
        sink.write(table)
    raw = Manifest(stage=RAW_USERS, day=day.isoformat(), files=(describe(folder / USERS_FILE),), made_from={})
    commit(layout, day, seal(layout, day, raw))
    return commit(layout, day, split(layout, day, num_shards))


@dataclass(frozen=True, kw_only=True)
class History:
    """Days that follow one another under one root, scored in one mode; each is judged as if every check passed."""

    layout: Layout
    bundle: Path
    settings: ScoringSettings

    def in_mode(self, mode: Mode) -> History:
        """The same under another root, in that mode."""
        layout = Layout(root=self.layout.root / mode, name=self.layout.name)
        return dataclasses.replace(self, layout=layout, settings=dataclasses.replace(self.settings, mode=mode))

    def deal(self, day: dt.date, table: pa.Table, num_shards: int = 4) -> Manifest:
        return deal_out(self.layout, day, table, num_shards)

    def score(self, day: dt.date, *, bundle: Path | None = None) -> Staged:
        return score_day(self.layout, day, bundle or self.bundle, self.settings)

    def publish(self, day: dt.date) -> None:
        for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
            manifest = current(self.layout, stage, day)
            assert manifest is not None
            passed = tuple(Outcome(check=check, result="pass", detail="") for check in CHECKS[stage])
            record(self.layout, day, StageVerdict(stage=stage, digest=manifest.digest, outcomes=passed))
        publish(self.layout, day, time_zone="UTC", clock=lambda: dt.datetime(2027, 1, 1, tzinfo=dt.UTC))

    def run(self, day: dt.date, table: pa.Table, num_shards: int = 4) -> Manifest:
        """Everything of a day, up to its publication."""
        self.deal(day, table, num_shards)
        manifest = commit(self.layout, day, self.score(day))
        self.publish(day)
        return manifest

    def table(self, day: dt.date) -> dict[str, tuple[float, str]]:
        """What readers see: user to score, as its bits, and route."""
        rows = read_day(self.layout, day, columns=["user_id", "score", "route"])
        users, scores, routes = (column.to_pylist() for column in rows.columns)
        return dict(zip(users, zip(scores, routes, strict=True), strict=True))


@pytest.fixture
def history(layout: Layout, bundle_path: Path, small: ScoringSettings) -> History:
    """Nothing yet, in incremental mode."""
    settings = dataclasses.replace(small, mode="incremental")
    return History(layout=layout, bundle=bundle_path, settings=settings)


@pytest.fixture(scope="session")
def read_scores() -> Callable[[Path, Manifest], dict[str, float]]:
    """User to score, over all files of a stage, as the bits on the disk."""

    def read(folder: Path, manifest: Manifest) -> dict[str, float]:
        table = pa.concat_tables([pq.read_table(folder / entry.name) for entry in manifest.files])
        return dict(zip(table.column("user_id").to_pylist(), table.column("score").to_pylist(), strict=True))

    return read


@pytest.fixture(scope="session")
def make_history(bundle_path: Path, small: ScoringSettings) -> Callable[[Layout], History]:
    """The same under a root of one's own, for tests of many examples."""

    def make(layout: Layout) -> History:
        return History(layout=layout, bundle=bundle_path, settings=dataclasses.replace(small, mode="incremental"))

    return make
