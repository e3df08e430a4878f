"""Weights that were trained elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import safetensors.torch
import torch

from profile_assets.errors import BundleError
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle import load_bundle, probabilities
from profile_assets.models.bundle_files import GOLDEN, SIGNATURE, SPEC, WEIGHTS
from profile_assets.models.importing import import_bundle
from profile_assets.models.network import WideAndDeep
from profile_assets.models.settings import NetworkSettings
from profile_assets.storage.layout import Layout
from profile_assets.users.contract import Column, Contract

SETTINGS = NetworkSettings(hidden=(8,), embedding_dim=4)
CONTRACT = Contract(
    id="id",
    columns=(
        Column(name="age", type=pa.float64()),
        Column(name="orders", type=pa.int64()),
        Column(name="plan", type=pa.string()),
        Column(name="city", type=pa.string()),
    ),
)


@pytest.fixture
def network(make_network: Callable[[NetworkSettings, FeatureSpec], WideAndDeep], spec: FeatureSpec) -> WideAndDeep:
    return make_network(SETTINGS, spec)


@pytest.fixture
def folder(tmp_path: Path, network: WideAndDeep, spec: FeatureSpec) -> Path:
    """What somebody writes who trained elsewhere."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    safetensors.torch.save_file(network.state_dict(), folder / WEIGHTS)
    (folder / SPEC).write_text(json.dumps(spec.to_json()))
    inputs = [{"name": name} for name in spec.columns]
    (folder / SIGNATURE).write_text(json.dumps({"format": 1, "network": SETTINGS.to_json(), "inputs": inputs}))
    return folder


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path / "data", name="churn")


def test_they_score_as_the_network_that_was_trained(
    folder: Path, layout: Layout, network: WideAndDeep, spec: FeatureSpec, users: pa.Table
) -> None:
    bundle = load_bundle(layout.bundle(import_bundle(folder, CONTRACT, layout)))
    np.testing.assert_array_equal(
        probabilities(bundle.network, users, bundle.spec), probabilities(network, users, spec)
    )
    recorded = json.loads((bundle.path / "provenance.json").read_text())
    assert recorded["imported_from"] == "elsewhere"
    assert set(recorded["imported"]) == {WEIGHTS, SPEC, SIGNATURE}


def test_importing_twice_gives_one_bundle(folder: Path, layout: Layout) -> None:
    assert import_bundle(folder, CONTRACT, layout) == import_bundle(folder, CONTRACT, layout)


def test_a_bundle_of_another_deployment_can_be_imported_and_its_golden_rows_come_out(
    bundle_path: Path, layout: Layout
) -> None:
    assert import_bundle(bundle_path, CONTRACT, layout) == bundle_path.name


def test_scores_that_came_with_the_weights_have_to_come_out_again(bundle_path: Path, layout: Layout) -> None:
    tensors = safetensors.torch.load((bundle_path / WEIGHTS).read_bytes())
    tensors["first.bias"] += 0.5
    (bundle_path / WEIGHTS).write_bytes(safetensors.torch.save(tensors))
    with pytest.raises(BundleError, match="golden rows differ"):
        import_bundle(bundle_path, CONTRACT, layout)
    (bundle_path / GOLDEN).unlink()
    assert import_bundle(bundle_path, CONTRACT, layout) != bundle_path.name


def test_everything_that_does_not_fit_is_told_at_once(folder: Path, layout: Layout) -> None:
    tensors = safetensors.torch.load((folder / WEIGHTS).read_bytes())
    tensors["module.extra"] = torch.zeros(1)
    tensors["first.bias"][0] = float("nan")
    (folder / WEIGHTS).write_bytes(safetensors.torch.save(tensors))
    signature = json.loads((folder / SIGNATURE).read_text())
    (folder / SIGNATURE).write_text(json.dumps({**signature, "inputs": signature["inputs"][::-1]}))
    with pytest.raises(BundleError) as caught:
        import_bundle(folder, CONTRACT, layout)
    for text in ("hold module.extra", "first.bias holds 1 values", "are not the columns of its spec"):
        assert text in str(caught.value)
    assert not layout.models.exists()


def test_a_contract_that_lacks_an_input_refuses_them(folder: Path, layout: Layout) -> None:
    with pytest.raises(BundleError, match="does not hold orders, plan, city"):
        import_bundle(folder, Contract(id="id", columns=CONTRACT.columns[:1]), layout)


def test_a_pickle_is_named_and_never_opened(folder: Path, layout: Layout) -> None:
    (folder / WEIGHTS).rename(folder / "model.pt")
    with pytest.raises(BundleError, match=r"no plain file weights.safetensors \(it holds model.pt: pickles"):
        import_bundle(folder, CONTRACT, layout)


def test_a_link_in_place_of_a_file_is_not_followed(folder: Path, layout: Layout, tmp_path: Path) -> None:
    shutil.move(folder / WEIGHTS, tmp_path / "away")
    (folder / WEIGHTS).symlink_to(tmp_path / "away")
    with pytest.raises(BundleError, match=r"no plain file weights\.safetensors"):
        import_bundle(folder, CONTRACT, layout)


def test_no_folder_at_all(tmp_path: Path, layout: Layout) -> None:
    with pytest.raises(BundleError, match="is no folder"):
        import_bundle(tmp_path / "gone", CONTRACT, layout)


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ('{"days": [5]}', "days is no list of tables"),
        ('{"bins": 5}', "the bins of the bundle's metrics cannot be used"),
        ('{"auc": NaN}', "NaN is no number"),
    ],
)
def test_metrics_that_nobody_could_use_are_refused_at_the_door(
    folder: Path, layout: Layout, metrics: str, told: str
) -> None:
    (folder / "metrics.json").write_text(metrics)
    with pytest.raises(BundleError, match=told):
        import_bundle(folder, CONTRACT, layout)
    assert not list(layout.models.glob("b-*"))
