"""A small score of its own: some hundred users a day, networks that nobody trained, an instance in memory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from profile_assets.feature_store.read import read_day
from profile_assets.features.spec import FeatureSettings, fit_spec
from profile_assets.models.bundle import write_bundle
from profile_assets.models.network import build_network
from profile_assets.models.settings import NetworkSettings
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import load_deployment

ROWS = 400
PROFILE = """
name = "small"
time_zone = "UTC"
start_day = 2026-01-01
[source]
path = "users/{day}"
[contract]
id = "user_id"
columns = [{ name = "age", type = "float64" }, { name = "plan", type = "string" }]
[labels]
path = "labels/{day}"
key = "user_id"
column = "bought"
horizon_days = 30
[model]
features = [{ name = "age" }, { name = "plan" }]
embedding_dim = 2
hidden = [8]
[shards]
count = 2
[scoring]
batch_rows = 256
device = "cpu"
workers = 1
[quality]
max_shard_skew = 2.0
min_drift_rows = 50
[export.online]
store = "none"
"""


def users(seed: int, rows: int = ROWS) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "user_id": [f"user-{number:04d}" for number in range(rows)],
            "age": draw.normal(40, 10, rows),
            "plan": draw.choice(["free", "paid"], rows),
        }
    )


@dataclass(frozen=True, kw_only=True)
class SmallScore:
    """A deployment under a root of its own. Sources and models are put there as a test likes."""

    session: Session

    @property
    def layout(self) -> Any:
        return self.session.deployment.layout

    def put_users(self, day: dt.date, table: pa.Table | None = None) -> None:
        self._put("users", day, users(1) if table is None else table)

    def put_labels(self, day: dt.date, table: pa.Table) -> None:
        self._put("labels", day, table)

    def _put(self, kind: str, day: dt.date, table: pa.Table) -> None:
        folder = self.layout.root / kind / day.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / "part-0.parquet")

    def put_model(self, seed: int, *, made_at: str | None = None, shift: float = 0.0, architecture: str = "") -> str:
        """A bundle whose every weight matters; one of the same seed and shift is the same one."""
        settings = NetworkSettings(embedding_dim=2, hidden=(8,))
        if architecture:
            settings = NetworkSettings(embedding_dim=2, hidden=(8,), architecture=architecture)
        spec = fit_spec([FeatureSettings(name="age"), FeatureSettings(name="plan")], users(1))
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            network = build_network(settings, spec)
            for weight in network.parameters():
                weight += 0.1 * torch.randn_like(weight) + shift
        said: dict[str, Any] = {"metrics": {}, "data_snapshot": {}}
        return write_bundle(
            self.layout.models,
            network=network.eval(),
            network_settings=settings,
            spec=spec,
            schema=users(1).schema,
            staging=self.layout.scratch("models"),
            provenance={} if made_at is None else {"made_at": made_at},
            **said,
        )

    def shown(self, asset: str) -> dict[str, Any]:
        """The metadata of the newest materialization, as plain values."""
        event = self.session.instance.get_latest_materialization_event(dg.AssetKey(["small", asset]))
        assert event is not None
        assert event.asset_materialization is not None
        shown = event.asset_materialization.metadata
        return {name: getattr(value, "records", value.value) for name, value in shown.items()}

    def evaluation(self, check: str) -> dg.AssetCheckEvaluation:
        """The newest evaluation of a check."""
        for run in self.session.instance.get_runs():
            for entry in self.session.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
                found = entry.get_dagster_event().event_specific_data
                assert isinstance(found, dg.AssetCheckEvaluation)
                if found.check_name == check:
                    return found
        raise AssertionError(f"{check} was never evaluated")

    def rows(self, day: dt.date) -> dict[str, dict[str, Any]]:
        """What readers see of a day, by user."""
        return {row["user_id"]: row for row in read_day(self.layout, day).to_pylist()}


@pytest.fixture
def make_small(tmp_path: Path) -> Iterator[Callable[[str], SmallScore]]:
    """A score whose profile has some more lines at its end."""
    with dg.DagsterInstance.ephemeral() as instance:

        def make(more: str = "") -> SmallScore:
            path = tmp_path / "small.toml"
            path.write_text(PROFILE + more, encoding="utf-8")
            deployment = load_deployment(path, environment={"PROFILE_DATA": str(tmp_path)})
            definitions = build_definitions(deployment)
            return SmallScore(session=Session(deployment=deployment, definitions=definitions, instance=instance))

        yield make


@pytest.fixture
def small(make_small: Callable[[], SmallScore]) -> SmallScore:
    return make_small()
