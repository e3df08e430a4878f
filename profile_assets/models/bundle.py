"""The bundle: a trained model as an immutable folder, written once and checked before every use.

    weights.safetensors  signature.json  feature_spec.json  metrics.json  data_snapshot.json  provenance.json
    golden.parquet       bundle.json, written last: size and digest of each of these

Its id is the digest of weights, signature and spec, so equal ids score equally. Nothing in it is pickled. Loading
compares the digests, then the weights with the network that the signature describes, then the scores of the golden
rows with those recorded; everything found wrong is told in one BundleError.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from profile_assets.errors import BundleError, ContractError, DataError
from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models import bundle_files as files
from profile_assets.models.bundle_files import parse_json, unusable
from profile_assets.models.golden import ROWS, golden_rows
from profile_assets.models.network import Folded, WideAndDeep, build_network
from profile_assets.models.settings import NetworkSettings
from profile_assets.models.signature import FORMAT, make_signature, tensor_shapes, weight_problems
from profile_assets.storage import atomic

GOLDEN_TOLERANCE = 1e-6
_SCORE = "score"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A loaded bundle. `inference` scores (folded, eval); `network` is the same model as it was trained (eval)."""

    id: str
    path: Path
    inference: Folded
    network: WideAndDeep
    spec: FeatureSpec
    settings: NetworkSettings
    signature: Mapping[str, Any]
    metrics: Mapping[str, Any]


def write_bundle(
    models_root: Path,
    *,
    network: WideAndDeep,
    network_settings: NetworkSettings,
    spec: FeatureSpec,
    schema: pa.Schema,
    metrics: Mapping[str, Any],
    data_snapshot: Mapping[str, Any],
    provenance: Mapping[str, Any],
    staging: Path,
) -> str:
    """Write, load as a test, and commit a bundle; give its id. One that is there and whole already is left alone.

    `staging` lies on the same file system, outside `models_root`. BundleError where the weights are unusable.
    """
    state = {name: one.detach().cpu().contiguous() for name, one in network.state_dict().items()}
    contents = {
        files.WEIGHTS: safetensors.torch.save(state),
        files.SIGNATURE: files.json_bytes(make_signature(network_settings, spec, schema, state)),
        files.SPEC: files.json_bytes(spec.to_json()),
        files.METRICS: files.json_bytes(metrics),
        files.SNAPSHOT: files.json_bytes(data_snapshot),
        files.PROVENANCE: files.json_bytes(provenance),
        files.GOLDEN: _golden_bytes(network, spec),
    }
    bundle_id, record = files.seal(contents)
    if not _is_loadable(models_root / bundle_id):
        contents[files.SEAL] = files.json_bytes(record)
        staged = _stage(staging / atomic.unique_name("bundle") / bundle_id, contents)
        load_bundle(staged)
        atomic.replace_folder(staged, models_root / bundle_id)
        staged.parent.rmdir()
    return bundle_id


def _stage(folder: Path, contents: Mapping[str, bytes]) -> Path:
    atomic.empty_folder(folder)
    for name, content in contents.items():
        with atomic.disk_errors("cannot write", folder / name):
            (folder / name).write_bytes(content)
    return folder


def _is_loadable(path: Path) -> bool:
    """Whether a bundle is there and whole; a damaged one is about to be made again."""
    if not path.exists():
        return False
    try:
        load_bundle(path)
    except BundleError:
        return False
    return True


def load_bundle(path: Path, device: str = "cpu") -> Bundle:
    """Load and verify a bundle on a device; BundleError listing every mismatch that was found."""
    contents = files.read_sealed(path)
    signature = parse_json(path, files.SIGNATURE, contents[files.SIGNATURE])
    if signature.get("format") != FORMAT:
        raise unusable(path, [f"its signature has format {signature.get('format')!r}, this version reads {FORMAT}"])
    spec = FeatureSpec.from_json(parse_json(path, files.SPEC, contents[files.SPEC]))
    settings = NetworkSettings.from_json(signature.get("network", {}))
    network = _restore(path, settings, spec, signature, contents[files.WEIGHTS]).to(device).eval()
    inference = network.fold()
    if problems := _golden_problems(inference, spec, contents[files.GOLDEN], device):
        raise unusable(path, problems)
    return Bundle(
        id=path.name,
        path=path,
        inference=inference,
        network=network.requires_grad_(False),
        spec=spec,
        settings=settings,
        signature=signature,
        metrics=parse_json(path, files.METRICS, contents[files.METRICS]),
    )


def _restore(
    path: Path, settings: NetworkSettings, spec: FeatureSpec, signature: Mapping[str, Any], weights: bytes
) -> WideAndDeep:
    try:
        state = safetensors.torch.load(weights)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise unusable(path, [f"{files.WEIGHTS} is not a safetensors file: {error}"]) from error
    with torch.random.fork_rng(devices=[]):  # the fresh weights are thrown away: nobody's random state moves for them
        network = build_network(settings, spec)
    wanted = network.state_dict()
    problems = weight_problems(state, wanted)
    if signature.get("tensors") != tensor_shapes(wanted):
        problems.append("the tensors of its signature are not those of its network")
    if _input_names(signature) != list(spec.columns):
        problems.append("the inputs of its signature are not the columns of its spec")
    if problems:
        raise unusable(path, problems)
    network.load_state_dict(state, strict=True)
    return network


def _input_names(signature: Mapping[str, Any]) -> list[Any] | None:
    inputs = signature.get("inputs")
    if not isinstance(inputs, list):
        return None
    return [entry.get("name") if isinstance(entry, dict) else None for entry in inputs]


def probabilities(network: nn.Module, rows: pa.Table, spec: FeatureSpec, device: str = "cpu") -> np.ndarray:
    """float32 (rows,): the scores of a small table, in one forward."""
    encoded = encode(rows, spec)
    with torch.inference_mode():
        logits: Tensor = network(
            torch.from_numpy(encoded.numeric).to(device), torch.from_numpy(encoded.categories).to(device)
        )
        return np.asarray(torch.sigmoid(logits).cpu().numpy())


def _golden_bytes(network: WideAndDeep, spec: FeatureSpec) -> bytes:
    rows = golden_rows(spec)
    was_training = network.training
    scores = probabilities(network.eval(), rows, spec, str(network.first.weight.device))
    network.train(was_training)
    sink = io.BytesIO()
    # The score is a column of its own place, last: a feature may be called "score" as well.
    table = rows.append_column(_SCORE, pa.array(scores, pa.float32()))
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def _golden_problems(network: nn.Module, spec: FeatureSpec, content: bytes, device: str) -> list[str]:
    try:
        table = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True).read()
        recorded = table.column(table.num_columns - 1).cast(pa.float64()).to_numpy()
        found = probabilities(network, table.select(range(table.num_columns - 1)), spec, device).astype(np.float64)
    except (pa.ArrowException, OSError, ContractError, DataError) as error:
        return [f"{files.GOLDEN} cannot be scored: {error}"]
    if len(found) != ROWS:
        return [f"{files.GOLDEN} holds {len(found)} rows, not {ROWS}"]
    is_same = np.abs(found - recorded) <= GOLDEN_TOLERANCE  # false for NaN on either side
    if is_same.all():
        return []
    row = int(np.argmin(is_same))
    return [f"{int((~is_same).sum())} golden rows differ: row {row} scores {found[row]}, recorded is {recorded[row]}"]
