from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.network import WideAndDeep, build_network
from profile_assets.models.settings import NetworkSettings

Make = Callable[[NetworkSettings, FeatureSpec], WideAndDeep]
ARCHITECTURES: list[str] = ["wide_and_deep", "deepfm"]


@pytest.fixture(scope="module")
def inputs(users: pa.Table, spec: FeatureSpec) -> tuple[Tensor, Tensor]:
    encoded = encode(users, spec)
    return torch.from_numpy(encoded.numeric), torch.from_numpy(encoded.categories)


def scores(network: torch.nn.Module, numeric: Tensor, categories: Tensor) -> Tensor:
    with torch.inference_mode():
        return torch.sigmoid(network(numeric, categories))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("max_bytes", [0, 2_000, 1 << 30])
def test_the_folded_form_scores_as_the_network_does(
    make_network: Make, spec: FeatureSpec, inputs: tuple[Tensor, Tensor], architecture: str, max_bytes: int
) -> None:
    network = make_network(NetworkSettings(architecture=architecture), spec)
    expected, found = scores(network, *inputs), scores(network.fold(max_bytes), *inputs)
    assert expected.std() > 0.01
    assert (expected - found).abs().max() <= 1e-6


def test_small_vocabularies_are_folded_first_and_the_memory_is_bounded(make_network: Make, spec: FeatureSpec) -> None:
    network = make_network(NetworkSettings(hidden=(128, 8)), spec)
    plan, city = (feature.slots for feature in spec.categorical)
    assert network.fold(plan * 128 * 4).folded == [0]
    assert network.fold(plan * 128 * 4).loose == [1]
    assert network.fold(plan * 128 * 4 - 1).folded == []
    assert network.fold((plan + city) * 128 * 4).folded == [0, 1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kept", ["numeric", "categorical"])
def test_a_spec_of_one_kind_alone_works(
    make_network: Make, spec: FeatureSpec, users: pa.Table, architecture: str, kept: str
) -> None:
    one = FeatureSpec(
        numeric=spec.numeric if kept == "numeric" else (),
        categorical=spec.categorical if kept == "categorical" else (),
    )
    network, encoded = make_network(NetworkSettings(architecture=architecture), one), encode(users, one)
    numeric, categories = torch.from_numpy(encoded.numeric), torch.from_numpy(encoded.categories)
    expected, found = scores(network, numeric, categories), scores(network.fold(), numeric, categories)
    assert expected.shape == (users.num_rows,)
    assert (expected - found).abs().max() <= 1e-6


def test_deepfm_adds_the_inner_product_of_every_pair(make_network: Make, spec: FeatureSpec) -> None:
    network = make_network(NetworkSettings(architecture="deepfm", embedding_dim=3), spec)
    numeric, categories = torch.randn(4, 2), torch.tensor([[2, 3], [5, 0]])
    slots = categories + network.first_slot
    with torch.inference_mode():
        found = network.interactions(numeric, network.embeddings[slots])
        vectors = torch.cat(
            [network.embeddings[slots], numeric.unsqueeze(2) * network.get_parameter("numeric_vectors").unsqueeze(1)]
        )
        pairs = [vectors[one] * vectors[other] for one in range(6) for other in range(one)]
    assert isinstance(found, Tensor)
    torch.testing.assert_close(found, torch.stack(pairs).sum(dim=(0, 2)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("rows", [256, 512])
def test_a_score_has_the_same_bits_whoever_shares_the_batch(
    make_network: Make, spec: FeatureSpec, inputs: tuple[Tensor, Tensor], architecture: str, rows: int
) -> None:
    network = make_network(NetworkSettings(architecture=architecture), spec).fold()
    whole = np.concatenate([_batch(network, inputs, torch.arange(start, start + rows), rows) for start in (0, rows)])
    shuffled = torch.from_numpy(np.random.default_rng(1).permutation(2 * rows))
    again = np.concatenate([_batch(network, inputs, part, rows) for part in shuffled.split(rows)])
    np.testing.assert_array_equal(again, whole[shuffled.numpy()])
    few = shuffled[:3]
    np.testing.assert_array_equal(_batch(network, inputs, few, rows)[:3], whole[few.numpy()])


def _batch(network: torch.nn.Module, inputs: tuple[Tensor, Tensor], chosen: Tensor, rows: int) -> np.ndarray:
    """The scores of the chosen rows in a forward of fixed shape, padded with zeros."""
    padded = [torch.zeros(len(part), rows, dtype=part.dtype) for part in inputs]
    for whole, part in zip(padded, inputs, strict=True):
        whole[:, : len(chosen)] = part[:, chosen]
    return scores(network, padded[0], padded[1]).numpy()


def test_dropout_is_off_in_the_folded_form_even_of_a_network_in_training(
    make_network: Make, spec: FeatureSpec, inputs: tuple[Tensor, Tensor]
) -> None:
    network = make_network(NetworkSettings(dropout=0.5), spec)
    expected = scores(network, *inputs)
    folded = network.train().fold()
    assert not any(module.training for module in folded.modules())
    torch.testing.assert_close(scores(folded, *inputs), expected, rtol=0, atol=1e-6)
    assert network.training


def test_training_on_goes_unnoticed_by_a_form_folded_before(
    make_network: Make, spec: FeatureSpec, inputs: tuple[Tensor, Tensor]
) -> None:
    network = make_network(NetworkSettings(), spec)
    folded = network.fold()
    before = scores(folded, *inputs)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 1.0
    torch.testing.assert_close(scores(folded, *inputs), before, rtol=0, atol=0)


def test_unknown_and_missing_begin_neutral(spec: FeatureSpec) -> None:
    network = build_network(NetworkSettings(), spec)
    first = network.first_slot.flatten()
    assert (network.embeddings[torch.cat([first, first + 1])] == 0).all()


def test_a_fresh_network_gives_everybody_about_the_rate_it_starts_at(
    spec: FeatureSpec, inputs: tuple[Tensor, Tensor]
) -> None:
    network = build_network(NetworkSettings(), spec).eval()
    network.start_at(0.05)
    assert float(scores(network, *inputs).mean()) == pytest.approx(0.05, abs=0.02)


def test_int32_and_int64_slots_score_alike(
    make_network: Make, spec: FeatureSpec, inputs: tuple[Tensor, Tensor]
) -> None:
    network = make_network(NetworkSettings(), spec).fold()
    numeric, categories = inputs
    torch.testing.assert_close(
        scores(network, numeric, categories), scores(network, numeric, categories.long()), rtol=0, atol=0
    )
