"""The signature of a bundle: what goes into the network, what comes out, and the shape of every tensor between.

It is enough to build the network and to refuse weights that are not its own: a key too many, one too few, another
shape or type, a value that is no number. Each is told; none is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from profile_assets.errors import BundleError
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.calibrate import Calibration
from profile_assets.models.settings import NetworkSettings

FORMAT = 1
_SHOWN = 20


def make_signature(
    settings: NetworkSettings,
    spec: FeatureSpec,
    schema: pa.Schema,
    state: Mapping[str, Tensor],
    *,
    calibration: Calibration,
    code: str | None,
) -> dict[str, Any]:
    """The signature as JSON. `schema` gives the types of the columns that the spec names.

    `code` is the digest of the source of a network of one's own: with other source it is another model.
    """
    absent = [name for name in spec.columns if len(schema.get_all_field_indices(name)) != 1]
    if absent:
        raise BundleError(
            f"the schema does not hold {', '.join(absent)} (once), which the spec names",
            remedy="write the bundle with the schema of the rows that it was trained on",
        )
    return {
        "format": FORMAT,
        "network": settings.to_json(),
        "inputs": [{"name": name, "type": str(schema.field(name).type)} for name in spec.columns],
        "output": {"name": "score", "type": "float", "meaning": "probability that the label is 1"},
        "calibration": calibration.to_json(),
        "tensors": tensor_shapes(state),
        **({} if code is None else {"code": code}),
    }


def tensor_shapes(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Name -> shape and dtype of each tensor."""
    return {name: {"shape": list(one.shape), "dtype": str(one.dtype)} for name, one in sorted(state.items())}


def weight_problems(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """Everything that keeps `found` from being the weights of the network whose state is `wanted`."""
    problems = list(_weight_problems(found, wanted))
    more = len(problems) - _SHOWN
    return problems if more <= 0 else [*problems[:_SHOWN], f"and {more} more"]


def _weight_problems(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Iterator[str]:
    for name in sorted(set(wanted) - set(found)):
        yield f"the weights lack {name}"
    for name in sorted(set(found) - set(wanted)):
        yield f"the weights hold {name}, which the network has not"
    for name in sorted(set(found) & set(wanted)):
        one, other = found[name], wanted[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            yield f"{name} is {tuple(one.shape)} {one.dtype}, the network takes {tuple(other.shape)} {other.dtype}"
        elif not torch.isfinite(one).all():
            yield f"{name} holds {int((~torch.isfinite(one)).sum())} values that are no numbers"


def input_names(signature: Mapping[str, Any]) -> list[Any] | None:
    """The columns that a signature takes, in its order; None where it names none."""
    inputs = signature.get("inputs")
    if not isinstance(inputs, list):
        return None
    return [entry.get("name") if isinstance(entry, dict) else None for entry in inputs]
