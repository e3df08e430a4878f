"""A month of CDNOW's customers, scored in full and incrementally: every day's table is the same, to the bit.

With days since the last order as they are, everybody's input moves every day; in bands, that of 1 to 3 % does.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.read import read_day
from profile_assets.features.spec import FeatureSettings, fit_spec
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
from profile_assets.storage.stages import commit, current, describe, seal
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, record
from profile_assets.users.demo_purchases import Purchases, profile_table, read_purchases

FIRST = dt.date(1998, 3, 1)
NUM_DAYS = 30
SETTINGS = ScoringSettings(batch_rows=512, device="cpu", workers=1)
BANDS = [8, 31, 61, 91, 181, 366]
"""The first day of each band of days but the first one."""
LASTING = ["orders", "orders_last_90d", "cds_total", "spend_total", "first_order_size", "last_order_value"]


@pytest.fixture(scope="module")
def purchases() -> Purchases:
    return read_purchases()


def users_of(purchases: Purchases, day: dt.date) -> pa.Table:
    """Every fourth customer, with bands of the days beside the days themselves."""
    table = profile_table(purchases, day)
    table = table.take(np.arange(0, table.num_rows, 4))
    for name in ("recency_days", "tenure_days"):
        bands = pa.array(np.digitize(table.column(name).to_numpy(), BANDS))
        table = table.append_column(name.replace("days", "band"), pc.cast(bands, pa.string()))
    return table


def bundle_of(root: Path, features: list[str], users: pa.Table) -> Path:
    """A network of drawn weights: what it learned does not matter here."""
    spec = fit_spec([FeatureSettings(name=name) for name in features], users)
    network_settings = NetworkSettings(hidden=(32, 16), embedding_dim=4)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = build_network(network_settings, spec)
    made = write_bundle(
        root / "models",
        network=network.eval(),
        network_settings=network_settings,
        spec=spec,
        schema=users.schema,
        metrics={},
        data_snapshot={},
        provenance={},
        staging=root / "staging",
    )
    return root / "models" / made


def deal(layout: Layout, day: dt.date, users: pa.Table) -> None:
    folder = atomic.empty_folder(layout.staging(RAW_USERS, day))
    with ParquetSink(folder / USERS_FILE, users.schema) as sink:
        sink.write(users)
    raw = Manifest(stage=RAW_USERS, day=day.isoformat(), files=(describe(folder / USERS_FILE),), made_from={})
    commit(layout, day, seal(layout, day, raw))
    commit(layout, day, split(layout, day, 2))


def run(layout: Layout, day: dt.date, users: pa.Table, bundle: Path, mode: Mode) -> Manifest:
    """Deal, score and publish a day, its checks apart."""
    deal(layout, day, users)
    scores = commit(layout, day, score_day(layout, day, bundle, dataclasses.replace(SETTINGS, mode=mode)))
    for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
        manifest = current(layout, stage, day)
        assert manifest is not None
        passed = tuple(Outcome(check=check, result="pass", detail="") for check in CHECKS[stage])
        record(layout, day, StageVerdict(stage=stage, digest=manifest.digest, outcomes=passed))
    publish(layout, day, time_zone="UTC", clock=lambda: dt.datetime(2027, 1, 1, tzinfo=dt.UTC))
    return scores


def test_a_month_in_bands_is_the_same_both_ways_and_little_of_it_is_scored(purchases: Purchases, tmp_path: Path):
    days = [FIRST + dt.timedelta(days=offset) for offset in range(NUM_DAYS)]
    features = ["recency_band", "tenure_band", *LASTING]
    bundle = bundle_of(tmp_path, features, users_of(purchases, days[0]))
    full, incremental = (Layout(root=tmp_path / mode, name="purchase_30d") for mode in ("full", "incremental"))
    shares = []
    for day in days:
        users = users_of(purchases, day)
        run(full, day, users, bundle, "full")
        told = run(incremental, day, users, bundle, "incremental").facts["carrying"]
        shares.append(told["scored"] / users.num_rows)
    for day in days:
        one, other = (read_day(layout, day).drop("route") for layout in (full, incremental))
        assert one.equals(other), day
    assert shares[0] == 1
    assert 0.01 <= float(np.mean(shares[1:])) <= 0.03


def test_days_as_they_are_leave_nobody_to_carry(purchases: Purchases, tmp_path: Path):
    features = ["recency_days", *LASTING]
    bundle = bundle_of(tmp_path, features, users_of(purchases, FIRST))
    layout = Layout(root=tmp_path, name="purchase_30d")
    for offset in range(2):
        day = FIRST + dt.timedelta(days=offset)
        manifest = run(layout, day, users_of(purchases, day), bundle, "incremental")
    told, notes = manifest.facts["carrying"], manifest.notes["carrying"]
    assert told["carried"] <= 0.001 * manifest.rows, "but for those who bought on the very day, twice in a row"
    assert notes["moved"]["recency_days"] >= 0.999 * notes["looked_at"]
    assert notes["moved"]["orders"] <= 0.01 * notes["looked_at"]
