"""From signature, feature spec and weights to a model; everything that does not fit together is found at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from profile_assets.errors import BundleError
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle_files import WEIGHTS
from profile_assets.models.calibrate import Calibration
from profile_assets.models.network import Network, build_network
from profile_assets.models.own_network import own_code_digest
from profile_assets.models.settings import NetworkSettings
from profile_assets.models.signature import FORMAT, input_names, tensor_shapes, weight_problems

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network with its weights, and what belongs to it."""

    network: Network
    calibration: Calibration
    spec: FeatureSpec
    settings: NetworkSettings


def restore(signature: Mapping[str, Any], spec: Mapping[str, Any], weights: bytes) -> Model:
    """The model that a signature, a feature spec and weights make together; BundleError listing what does not fit."""
    problems: list[str] = []
    model = restored(signature, spec, weights, problems)
    if model is None:
        raise BundleError(
            f"the weights, the signature and the spec do not fit: {'; '.join(problems)}",
            remedy="write them again with the network and the spec that the weights were trained with",
        )
    return model


def restored(
    signature: Mapping[str, Any], spec_json: Mapping[str, Any], weights: bytes | None, problems: list[str]
) -> Model | None:
    """The model; None where anything was found wrong, which is then among the problems. Each part is looked at."""
    before = len(problems)
    if signature.get("format") != FORMAT:
        problems.append(f"its signature has format {signature.get('format')!r}, this version reads {FORMAT}")
    spec = found(problems, lambda: FeatureSpec.from_json(spec_json))
    settings = found(problems, lambda: NetworkSettings.from_json(signature.get("network", {})))
    wanted = signature.get("calibration", Calibration().to_json())
    calibration = found(problems, lambda: Calibration.from_json(wanted))
    state = None if weights is None else found(problems, lambda: tensors_of(weights))
    network = None
    if spec is not None and settings is not None:
        network = found(problems, lambda: _fresh_network(settings, spec, signature.get("code")))
        if input_names(signature) != list(spec.columns):
            problems.append("the inputs of its signature are not the columns of its spec")
    if network is not None:
        problems += _tensor_problems(network, signature, state)
    if problems[before:] or network is None or calibration is None or spec is None or settings is None or state is None:
        return None
    network.load_state_dict(state, strict=True)
    return Model(network=network, calibration=calibration, spec=spec, settings=settings)


def found(problems: list[str], look: Callable[[], _T]) -> _T | None:
    """What `look` gives; None where it cannot be used, and why among the problems."""
    try:
        return look()
    except BundleError as error:
        problems.append(error.what)
        return None


def tensors_of(weights: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name. BundleError where it is none."""
    try:
        return dict(safetensors.torch.load(weights))
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise BundleError(
            f"{WEIGHTS} is not a safetensors file: {error}", remedy="save it with safetensors.torch.save_file"
        ) from error


def _fresh_network(settings: NetworkSettings, spec: FeatureSpec, code: object) -> Network:
    """A network to take the weights. Nobody's random state moves for the fresh ones, which are thrown away."""
    with torch.random.fork_rng(devices=[]):
        network = build_network(settings, spec)
    if own_code_digest(settings.architecture) != code:
        raise BundleError(
            f"the source of {settings.architecture} is not the one that the bundle was made with",
            remedy="put that source back, or train or import the model anew",
        )
    return network


def _tensor_problems(
    network: Network, signature: Mapping[str, Any], state: Mapping[str, Tensor] | None
) -> Iterator[str]:
    wanted = network.state_dict()
    if state is not None:
        yield from weight_problems(state, wanted)
    if signature.get("tensors") != tensor_shapes(wanted):
        yield "the tensors of its signature are not those of its network"
