"""How fast this machine scores: a short run of the real scorer, or what a published day's manifest says.

Rates are users per second of one device: a GPU by the clock, a core by CPU time, since a scoring process keeps more
than one core busy and others may be using the rest. The run generates users, gives them a network with fresh weights
(speed does not depend on what a network has learned) and scores their file from disk to disk, in a temporary folder.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import DataError
from profile_assets.features.bins import fit_bins
from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSettings, fit_spec
from profile_assets.models.bundle import probabilities, write_bundle
from profile_assets.models.bundle_files import BINS
from profile_assets.models.network import Network, build_network
from profile_assets.models.settings import NetworkSettings
from profile_assets.scoring.scorer import Scorer, scorer_for
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.layout import USER_SCORES, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.stages import ID_COLUMN, require
from profile_assets.users.day_folders import PART_FILE, day_folder
from profile_assets.users.generate import generate

CALIBRATION_USERS = 200_000
BIN_SAMPLE = 20_000  # rows whose scores give the score's bins
_DAY = dt.date(2026, 1, 1)


def measured_rate(settings: ScoringSettings, *, users: int = CALIBRATION_USERS) -> float:
    """Users per second, the better of two passes: the first one also warms the caches."""
    with tempfile.TemporaryDirectory(prefix="profile-assets-plan-") as folder:
        root = Path(folder)
        source = day_folder(generate(root, users, [_DAY]).users, _DAY) / PART_FILE
        scorer = scorer_for(fresh_bundle(root / "models", source), settings)
        return users / min(_seconds_to_score(scorer, source, root / "scores.parquet") for _ in range(2))


def fresh_bundle(
    models: Path,
    users: Path,
    *,
    draw: Callable[[Network], None] = lambda _: None,
    settings: NetworkSettings | None = None,
) -> Path:
    """A bundle for a file of users; every column but the id is a feature. `draw` may change the fresh weights."""
    settings = settings or NetworkSettings()
    table = pa.Table.from_batches(list(iter_batches(users)))
    features = [FeatureSettings(name=name) for name in table.column_names if name != ID_COLUMN]
    spec = fit_spec(features, table)
    network = build_network(settings, spec)
    draw(network)
    bins = fit_bins(encode(table, spec), spec, probabilities(network.eval(), table.slice(0, BIN_SAMPLE), spec))
    bundle_id = write_bundle(
        models,
        network=network,
        network_settings=settings,
        spec=spec,
        schema=table.schema,
        metrics={BINS: bins.to_json()},
        data_snapshot={"users": "generated"},
        provenance={"weights": "fresh, untrained"},
        staging=models.parent / "_staging",
    )
    return models / bundle_id


def _seconds_to_score(scorer: Scorer, source: Path, target: Path) -> float:
    clock = time.process_time if scorer.device == "cpu" else time.perf_counter
    began = clock()
    scorer.score_file(source, target)
    return clock() - began


def published_rate(layout: Layout, day: dt.date) -> float:
    """Users per second that one scoring process reached on a scored day, by the clock, as its manifest has it."""
    manifest = require(layout, USER_SCORES, day)
    seconds = sum(entry.seconds for entry in manifest.files)
    if not seconds or not manifest.rows:
        raise DataError(
            f"the manifest of {layout.name} on {day} holds no time to work with",
            remedy="name a day on which users were scored, or leave the day out: the rate is then measured",
        )
    return manifest.rows / seconds
