"""Small users, specs, networks, and bundles to break."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from torch import Tensor

from profile_assets.features.spec import FeatureSettings, FeatureSpec, fit_spec
from profile_assets.models.bundle import write_bundle
from profile_assets.models.bundle_files import FILES, SEAL, WEIGHTS, seal
from profile_assets.models.network import WideAndDeep, build_network
from profile_assets.models.recipe import Recipe
from profile_assets.models.settings import NetworkSettings, TrainingSettings
from profile_assets.users.contract import Column, Contract
from profile_assets.users.labels import LabelSettings
from profile_assets.users.source import SourceSettings

Reseal = Callable[[Path, dict[str, bytes]], Path]
ChangeWeights = Callable[[Path, Callable[[dict[str, Tensor]], object]], Path]


@pytest.fixture(scope="session")
def users() -> pa.Table:
    draw, rows = np.random.default_rng(7), 2000
    return pa.table(
        {
            "user_id": [f"{row:05d}" for row in range(rows)],
            "age": pa.array(draw.normal(40, 10, rows), mask=draw.random(rows) < 0.05),
            "orders": pa.array(draw.poisson(3, rows)),
            "plan": pa.array(draw.choice(["free", "paid", "gold"], rows), mask=draw.random(rows) < 0.05),
            "city": [f"city {place}" for place in draw.integers(0, 300, rows)],
        }
    )


@pytest.fixture(scope="session")
def features() -> tuple[FeatureSettings, ...]:
    return (
        FeatureSettings(name="age"),
        FeatureSettings(name="orders", transform="log1p"),
        FeatureSettings(name="plan"),
        FeatureSettings(name="city", min_count=2),
    )


@pytest.fixture(scope="session")
def spec(users: pa.Table, features: tuple[FeatureSettings, ...]) -> FeatureSpec:
    return fit_spec(features, users)


@pytest.fixture(scope="session")
def make_network() -> Callable[[NetworkSettings, FeatureSpec], WideAndDeep]:
    """A network whose every weight matters, in eval mode; the same one each time."""

    def make(settings: NetworkSettings, spec: FeatureSpec) -> WideAndDeep:
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(3)
            network = build_network(settings, spec)
            for weight in network.parameters():
                weight += 0.1 * torch.randn_like(weight)
        return network.eval()

    return make


@pytest.fixture
def bundle_path(
    tmp_path: Path,
    users: pa.Table,
    spec: FeatureSpec,
    make_network: Callable[[NetworkSettings, FeatureSpec], WideAndDeep],
) -> Path:
    """A whole bundle."""
    settings = NetworkSettings(hidden=(16, 8), embedding_dim=4)
    bundle_id = write_bundle(
        tmp_path / "models",
        network=make_network(settings, spec),
        network_settings=settings,
        spec=spec,
        schema=users.schema,
        metrics={"days": []},
        data_snapshot={"days": []},
        provenance={"seed": 3},
        staging=tmp_path / "_staging",
    )
    return tmp_path / "models" / bundle_id


@pytest.fixture
def reseal() -> Reseal:
    """Replace files of a bundle and seal it anew, under its new id: an attacker who knows the format."""

    def do(path: Path, changes: dict[str, bytes]) -> Path:
        contents = {name: changes.get(name, (path / name).read_bytes()) for name in FILES}
        bundle_id, record = seal(contents)
        for name, content in {**contents, SEAL: json.dumps(record).encode()}.items():
            (path / name).write_bytes(content)
        return path.rename(path.parent / bundle_id)

    return do


@pytest.fixture
def change_weights(reseal: Reseal) -> ChangeWeights:
    """Change the tensors of a bundle by a function that edits their mapping, and seal it anew."""

    def do(path: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
        tensors = safetensors.torch.load((path / WEIGHTS).read_bytes())
        change(tensors)
        return reseal(path, {WEIGHTS: safetensors.torch.save(tensors)})

    return do


@pytest.fixture
def churn(tmp_path: Path) -> Callable[..., Recipe]:
    """A recipe whose users and labels of these days lie on the disk: who has a balance tends to leave."""

    def make(*days: dt.date, rows: int, training: TrainingSettings, today: dt.date) -> Recipe:
        for day in days:
            _put_churn(tmp_path, day, rows)
        columns = (Column(name="balance", type=pa.float64()), Column(name="plan", type=pa.string()))
        return Recipe(
            source=SourceSettings(path=str(tmp_path / "users"), format="parquet"),
            contract=Contract(id="id", columns=columns),
            labels=LabelSettings(
                path=str(tmp_path / "labels"), format="parquet", key="id", column="left", horizon_days=7
            ),
            features=(FeatureSettings(name="balance"), FeatureSettings(name="plan")),
            network=NetworkSettings(hidden=(8,), embedding_dim=2),
            training=training,
            today=today,
        )

    return make


def _put_churn(root: Path, day: dt.date, rows: int) -> None:
    draws = np.random.default_rng(day.toordinal())
    ids, balance = [f"u{number}" for number in range(rows)], draws.normal(size=rows)
    users = pa.table({"id": ids, "balance": balance, "plan": draws.choice(["free", "paid"], rows)})
    labels = pa.table({"id": ids, "left": (balance + draws.normal(size=rows) > 0).astype("int8")})
    for name, table in (("users", users), ("labels", labels)):
        folder = root / name / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "part-0.parquet")
