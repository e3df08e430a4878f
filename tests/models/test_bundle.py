from __future__ import annotations

import json
import pickletools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from profile_assets.errors import BundleError
from profile_assets.features.spec import CategoricalFeature, FeatureSpec, NumericFeature
from profile_assets.models.bundle import load_bundle, probabilities, write_bundle
from profile_assets.models.bundle_files import FILES, SEAL, WEIGHTS
from profile_assets.models.network import WideAndDeep
from profile_assets.models.settings import NetworkSettings

Make = Callable[[NetworkSettings, FeatureSpec], WideAndDeep]


def write(root: Path, network: WideAndDeep, settings: NetworkSettings, spec: FeatureSpec, schema: pa.Schema) -> Path:
    bundle_id = write_bundle(
        root / "models",
        network=network,
        network_settings=settings,
        spec=spec,
        schema=schema,
        metrics={},
        data_snapshot={},
        provenance={},
        staging=root / "_staging",
    )
    return root / "models" / bundle_id


@pytest.mark.parametrize("architecture", ["wide_and_deep", "deepfm"])
def test_a_loaded_bundle_scores_as_the_network_that_was_written(
    tmp_path: Path, make_network: Make, spec: FeatureSpec, users: pa.Table, architecture: str
) -> None:
    settings = NetworkSettings.from_json({**NetworkSettings().to_json(), "architecture": architecture})
    network = make_network(settings, spec)
    path = write(tmp_path, network, settings, spec, users.schema)
    bundle = load_bundle(path)
    expected = probabilities(network, users, spec)
    np.testing.assert_array_equal(probabilities(bundle.network, users, bundle.spec), expected)
    np.testing.assert_allclose(probabilities(bundle.inference, users, bundle.spec), expected, rtol=0, atol=1e-6)
    assert (bundle.spec, bundle.settings, bundle.id, bundle.path) == (spec, settings, path.name, path)
    assert bundle.signature["inputs"][0] == {"name": "age", "type": "double"}


def test_a_loaded_bundle_is_in_eval_mode_and_asks_for_no_gradient(bundle_path: Path) -> None:
    bundle = load_bundle(bundle_path)
    for network in (bundle.network, bundle.inference):
        assert not any(module.training for module in network.modules())
        assert not any(weight.requires_grad for weight in network.parameters())


def test_the_same_model_has_the_same_id_and_the_folder_is_left_alone(bundle_path: Path, tmp_path: Path) -> None:
    bundle = load_bundle(bundle_path)
    before = {path.name: path.stat().st_mtime_ns for path in bundle_path.iterdir()}
    schema = pa.schema([("age", pa.float64()), ("orders", pa.int64()), ("plan", pa.string()), ("city", pa.string())])
    assert write(tmp_path, bundle.network, bundle.settings, bundle.spec, schema) == bundle_path
    assert {path.name: path.stat().st_mtime_ns for path in bundle_path.iterdir()} == before


def test_a_damaged_bundle_is_healed_by_writing_the_same_model_again(bundle_path: Path, tmp_path: Path) -> None:
    bundle = load_bundle(bundle_path)
    schema = pa.schema([("age", pa.float64()), ("orders", pa.int64()), ("plan", pa.string()), ("city", pa.string())])
    (bundle_path / WEIGHTS).write_bytes(b"")
    assert write(tmp_path, bundle.network, bundle.settings, bundle.spec, schema) == bundle_path
    assert load_bundle(bundle_path).id == bundle.id


def test_nothing_is_left_in_staging(bundle_path: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in bundle_path.iterdir()) == sorted((*FILES, SEAL))
    assert list((tmp_path / "_staging").iterdir()) == []


def test_the_id_moves_with_weights_spec_and_settings(
    tmp_path: Path, make_network: Make, spec: FeatureSpec, users: pa.Table
) -> None:
    settings = NetworkSettings(hidden=(8,), embedding_dim=4)
    network = make_network(settings, spec)
    ids = [write(tmp_path, network, settings, spec, users.schema).name]
    ids.append(
        write(tmp_path, network, NetworkSettings(hidden=(8,), embedding_dim=4, dropout=0.1), spec, users.schema).name
    )
    shifted = FeatureSpec(
        numeric=(NumericFeature(name="age", transform="none", mean=1.0, std=1.0), *spec.numeric[1:]),
        categorical=spec.categorical,
    )
    ids.append(write(tmp_path, network, settings, shifted, users.schema).name)
    with torch.no_grad():
        network.first.bias[0] += 1e-3
    ids.append(write(tmp_path, network, settings, spec, users.schema).name)
    assert len(set(ids)) == 4


def test_weights_that_are_no_numbers_are_never_written(
    tmp_path: Path, make_network: Make, spec: FeatureSpec, users: pa.Table
) -> None:
    settings = NetworkSettings(hidden=(8,))
    network = make_network(settings, spec)
    with torch.no_grad():
        network.embeddings[5, 0] = float("nan")
    with pytest.raises(BundleError, match="embeddings holds 1 values that are no numbers"):
        write(tmp_path, network, settings, spec, users.schema)
    assert not (tmp_path / "models").exists()


def test_a_schema_that_lacks_a_feature_is_refused(tmp_path: Path, make_network: Make, spec: FeatureSpec) -> None:
    settings = NetworkSettings(hidden=(8,))
    with pytest.raises(BundleError, match="does not hold orders, plan, city"):
        write(tmp_path, make_network(settings, spec), settings, spec, pa.schema([("age", pa.float64())]))


def test_loading_moves_nobodys_random_state(bundle_path: Path) -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    load_bundle(bundle_path)
    assert torch.rand(1) == expected


def test_a_feature_may_be_called_score_or_user_id(tmp_path: Path, make_network: Make) -> None:
    spec = FeatureSpec(
        numeric=(NumericFeature(name="score", transform="none", mean=0.0, std=1.0),),
        categorical=(CategoricalFeature(name="user_id", vocabulary=("a",)),),
    )
    settings = NetworkSettings(hidden=(8,))
    schema = pa.schema([("score", pa.float64()), ("user_id", pa.string())])
    assert load_bundle(write(tmp_path, make_network(settings, spec), settings, spec, schema)).spec == spec


def test_no_file_of_a_bundle_is_a_pickle(bundle_path: Path) -> None:
    for path in bundle_path.iterdir():
        content = path.read_bytes()
        assert not content.startswith((b"\x80", b"PK"))
        with pytest.raises(ValueError, match=r".*"):
            list(pickletools.genops(content[:64]))


def test_the_json_files_of_equal_bundles_are_equal_bytes(bundle_path: Path) -> None:
    for path in bundle_path.glob("*.json"):
        text = path.read_text()
        assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_bundle_written_from_a_gpu_loads_on_a_processor_and_back(
    tmp_path: Path, make_network: Make, spec: FeatureSpec, users: pa.Table
) -> None:
    settings = NetworkSettings(hidden=(16,))
    network = make_network(settings, spec)
    expected = probabilities(network, users, spec)
    path = write(tmp_path, network.to("cuda"), settings, spec, users.schema)
    np.testing.assert_allclose(probabilities(load_bundle(path).inference, users, spec), expected, rtol=0, atol=1e-6)
    on_gpu = load_bundle(path, "cuda").inference
    np.testing.assert_allclose(probabilities(on_gpu, users, spec, "cuda"), expected, rtol=0, atol=1e-5)
