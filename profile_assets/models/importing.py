"""Weights that were trained elsewhere: a folder of safetensors, feature spec and signature becomes a bundle.

    weights.safetensors    the tensors, named and shaped as the architecture's `state_dict` has them
    feature_spec.json      {"format": 1, "numeric": [...], "categorical": [...]}
    signature.json         {"format": 1, "network": {...}, "inputs": [{"name": ...}, ...]}, the inputs in spec order
    golden.parquet, metrics.json (may be left out)    rows with their scores, which must come out again; figures

Files are read by these names, never through a link, and nothing is unpickled. What does not fit is told at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profile_assets.errors import BundleError
from profile_assets.models.bundle import golden_problems, write_bundle
from profile_assets.models.bundle_files import GOLDEN, METRICS, SIGNATURE, SPEC, WEIGHTS, file_digest, parse_json, read
from profile_assets.models.code_state import made_by
from profile_assets.models.environment import environment
from profile_assets.models.network import calibrated
from profile_assets.models.own_network import own_code_digest
from profile_assets.models.restoring import Model, restore, tensors_of
from profile_assets.models.settings import is_architecture
from profile_assets.models.signature import tensor_shapes
from profile_assets.storage.layout import Layout
from profile_assets.users.contract import Contract

NEEDED = (WEIGHTS, SPEC, SIGNATURE)


def import_bundle(folder: Path, contract: Contract, layout: Layout) -> str:
    """Write the bundle of a folder's weights; gives its id. It moves no pointer. BundleError with all that is wrong."""
    contents = _read(folder)
    signature = parse_json(SIGNATURE, contents[SIGNATURE])
    signature.setdefault("tensors", tensor_shapes(tensors_of(contents[WEIGHTS])))
    signature |= _own_code(signature.get("network"))
    model = restore(signature, parse_json(SPEC, contents[SPEC]), contents[WEIGHTS])
    _require_golden(folder, model, contents)
    return write_bundle(
        layout.models,
        network=model.network.eval(),
        network_settings=model.settings,
        spec=model.spec,
        schema=contract.schema,
        metrics=parse_json(METRICS, contents[METRICS]) if METRICS in contents else {},
        data_snapshot={"days": [], "imported": True},
        provenance={
            "imported_from": folder.name,
            "imported": {name: file_digest(content) for name, content in sorted(contents.items())},
            **made_by(),
            **environment(),
        },
        staging=layout.scratch("models"),
        calibration=model.calibration,
    )


def _read(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise BundleError(f"{folder} is no folder", remedy=f"give a folder that holds {', '.join(NEEDED)}")
    found = {name: read(folder / name) for name in (*NEEDED, GOLDEN, METRICS)}
    missing = [name for name in NEEDED if found[name] is None]
    if missing:
        pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".pt", ".pth", ".bin", ".pkl"))
        hint = f" (it holds {', '.join(pickles)}: pickles are never opened)" if pickles else ""
        raise BundleError(
            f"{folder} has no plain file {', '.join(missing)}{hint}",
            remedy="save the weights with safetensors.torch.save_file, as docs/model.md shows",
        )
    return {name: content for name, content in found.items() if content is not None}


def _own_code(network: Any) -> dict[str, str]:
    """The digest of a network of one's own, as its source is here and now."""
    name = network.get("architecture") if isinstance(network, dict) else None
    code = own_code_digest(name) if is_architecture(name) else None
    return {} if code is None else {"code": code}


def _require_golden(folder: Path, model: Model, contents: dict[str, Any]) -> None:
    """The scores that came with the weights come out again, where any came."""
    if GOLDEN not in contents:
        return
    inference = calibrated(model.network.eval().fold(), model.calibration)
    if problems := golden_problems(inference, model.spec, contents[GOLDEN], "cpu", rows=None):
        raise BundleError(
            f"{folder}: {'; '.join(problems)}",
            remedy="write the spec and the signature of the very network that gave these scores",
        )
