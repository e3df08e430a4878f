"""A network of a user's own, named by its import path."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from profile_assets.errors import BundleError
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle import load_bundle, probabilities, write_bundle
from profile_assets.models.calibrate import Calibration
from profile_assets.models.network import build_network
from profile_assets.models.settings import NetworkSettings, is_architecture
from profile_assets.scoring.scorer import Scorer
from profile_assets.scoring.settings import ScoringSettings

SOURCE = Path(__file__).with_name("own_networks.py")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NetworkSettings:
    """`my_networks:Linear`, on this Python's path for one test."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "my_networks.py").write_text(SOURCE.read_text())
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    return NetworkSettings(architecture="my_networks:Linear")


def write(root: Path, settings: NetworkSettings, spec: FeatureSpec, users: pa.Table) -> Path:
    bundle_id = write_bundle(
        root / "models",
        network=build_network(settings, spec).eval(),
        network_settings=settings,
        spec=spec,
        schema=users.schema,
        metrics={},
        data_snapshot={},
        provenance={},
        staging=root / "_staging",
        calibration=Calibration(scale=2.0, shift=-0.5),
    )
    return root / "models" / bundle_id


def test_it_is_bundled_loaded_and_scored_like_any_other(
    tmp_path: Path, settings: NetworkSettings, spec: FeatureSpec, users: pa.Table
) -> None:
    from profile_assets.features.encode import encode

    bundle = load_bundle(write(tmp_path, settings, spec, users))
    scores = Scorer(bundle, ScoringSettings(batch_rows=512, device="cpu")).score(encode(users, spec))
    np.testing.assert_allclose(scores, probabilities(bundle.network, users, spec), rtol=0, atol=1e-6)
    assert bundle.calibration == Calibration(scale=2.0, shift=-0.5)


def test_another_source_under_its_name_is_another_model(
    tmp_path: Path, settings: NetworkSettings, spec: FeatureSpec, users: pa.Table
) -> None:
    path = write(tmp_path, settings, spec, users)
    source = tmp_path / "path" / "my_networks.py"
    source.write_text(source.read_text().replace(".sum(dim=0)", ".mean(dim=0)"))
    with pytest.raises(BundleError, match="the source of my_networks:Linear is not the one"):
        load_bundle(path)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my_networks:Missing", "no attribute"),
        ("my_networks_gone:Linear", "No module"),
        ("my_networks:Tensor", "no subclass"),
        ("my_networks:Unmakeable", "cannot be made"),
    ],
)
def test_a_class_that_cannot_be_used_is_named(
    settings: NetworkSettings, spec: FeatureSpec, name: str, why: str
) -> None:
    with pytest.raises(BundleError, match=why):
        build_network(dataclasses.replace(settings, architecture=name), spec)


def test_what_is_the_name_of_a_network() -> None:
    assert all(map(is_architecture, ["wide_and_deep", "deepfm", "a:B", "a.b_2:Net"]))
    assert not any(map(is_architecture, ["wide", "a.b", "a:b:c", "a b:C", "../a:B", "a:B.c", "", None]))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Sociable", "with the rows that it is scored with"),
        ("Dreaming", "with the rows that it is scored with"),
        ("Tall", r"logits of shape \(256, 1\)"),
    ],
)
def test_a_network_whose_scores_are_not_its_rows_alone_is_never_bundled(
    tmp_path: Path, settings: NetworkSettings, spec: FeatureSpec, users: pa.Table, name: str, why: str
) -> None:
    with pytest.raises(BundleError, match=why):
        write(tmp_path, dataclasses.replace(settings, architecture=f"my_networks:{name}"), spec, users)
    assert not (tmp_path / "models").exists()


def test_a_batch_norm_left_in_training_mode_scores_as_in_eval_mode(
    tmp_path: Path, settings: NetworkSettings, spec: FeatureSpec, users: pa.Table
) -> None:
    settings = dataclasses.replace(settings, architecture="my_networks:Normed")
    network = build_network(settings, spec).train()
    bundle_id = write_bundle(
        tmp_path / "models",
        network=network,
        network_settings=settings,
        spec=spec,
        schema=users.schema,
        metrics={},
        data_snapshot={},
        provenance={},
        staging=tmp_path / "_staging",
    )
    assert network.training
    bundle = load_bundle(tmp_path / "models" / bundle_id)
    expected = probabilities(network.eval(), users, spec)
    np.testing.assert_allclose(probabilities(bundle.inference, users, spec), expected, rtol=0, atol=1e-6)
