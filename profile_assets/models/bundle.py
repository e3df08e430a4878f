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
from functools import partial
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
from profile_assets.models.calibrate import Calibration
from profile_assets.models.golden import ROWS, golden_rows
from profile_assets.models.network import Network, calibrated
from profile_assets.models.own_network import own_code_digest
from profile_assets.models.restoring import found, restored
from profile_assets.models.settings import NetworkSettings
from profile_assets.models.signature import make_signature
from profile_assets.storage import atomic

GOLDEN_TOLERANCE = 1e-6
TIME_SEMANTICS = "each value is as it was known at the end of its day; nothing of a later day is in it"
_SCORE = "score"
_IDENTITY = Calibration()


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A loaded bundle. `inference` scores (folded, eval); `network` is the same model as it was trained (eval).

    Both give calibrated logits.
    """

    id: str
    path: Path
    inference: nn.Module
    network: nn.Module
    calibration: Calibration
    spec: FeatureSpec
    settings: NetworkSettings
    signature: Mapping[str, Any]
    metrics: Mapping[str, Any]


def write_bundle(
    models_root: Path,
    *,
    network: Network,
    network_settings: NetworkSettings,
    spec: FeatureSpec,
    schema: pa.Schema,
    metrics: Mapping[str, Any],
    data_snapshot: Mapping[str, Any],
    provenance: Mapping[str, Any],
    staging: Path,
    calibration: Calibration = _IDENTITY,
) -> str:
    """Write, load as a test, and commit a bundle; give its id. One that is there and whole already is left alone.

    `staging` lies on the same file system, outside `models_root`. BundleError where the weights are unusable.
    """
    state = {name: one.detach().cpu().contiguous() for name, one in network.state_dict().items()}
    code = own_code_digest(network_settings.architecture)
    contents = {
        files.WEIGHTS: safetensors.torch.save(state),
        files.SIGNATURE: files.json_bytes(
            make_signature(network_settings, spec, schema, state, calibration=calibration, code=code)
        ),
        files.SPEC: files.json_bytes(_described(spec, schema)),
        files.METRICS: files.json_bytes(metrics),
        files.SNAPSHOT: files.json_bytes(data_snapshot),
        files.PROVENANCE: files.json_bytes(provenance),
        files.GOLDEN: _golden_bytes(network, calibration, spec),
    }
    bundle_id, record = files.seal(contents)
    if not _is_loadable(models_root / bundle_id):
        contents[files.SEAL] = files.json_bytes(record)
        staged = _stage(staging / atomic.unique_name("bundle") / bundle_id, contents)
        load_bundle(staged)
        atomic.replace_folder(staged, models_root / bundle_id)
        staged.parent.rmdir()
    return bundle_id


def _described(spec: FeatureSpec, schema: pa.Schema) -> dict[str, Any]:
    """The spec as the bundle keeps it: with the columns' types, and what moment their values are of."""
    types = {name: str(schema.field(name).type) for name in spec.columns}
    return {**spec.to_json(), "types": types, "time": TIME_SEMANTICS}


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
    contents, problems = files.read_sealed(path)
    parsed = {
        name: value
        for name in contents
        if name.endswith(".json") and (value := found(problems, partial(parse_json, name, contents[name]))) is not None
    }
    if files.METRICS in parsed:
        found(problems, partial(files.check_metrics, parsed[files.METRICS]))
    model = None
    if files.SIGNATURE in parsed and files.SPEC in parsed:
        model = restored(parsed[files.SIGNATURE], parsed[files.SPEC], contents.get(files.WEIGHTS), problems)
    if model is None or files.GOLDEN not in contents:
        raise unusable(path, problems)
    network = model.network.to(device).eval()
    inference = calibrated(network.fold(), model.calibration)
    problems += golden_problems(inference, model.spec, contents[files.GOLDEN], device)
    if problems:
        raise unusable(path, problems)
    return Bundle(
        id=path.name,
        path=path,
        inference=inference,
        network=calibrated(network.requires_grad_(False), model.calibration),
        calibration=model.calibration,
        spec=model.spec,
        settings=model.settings,
        signature=parsed[files.SIGNATURE],
        metrics=parsed[files.METRICS],
    )


def probabilities(network: nn.Module, rows: pa.Table, spec: FeatureSpec, device: str = "cpu") -> np.ndarray:
    """float32 (rows,): the scores of a small table, in one forward."""
    encoded = encode(rows, spec)
    with torch.inference_mode():
        logits: Tensor = network(
            torch.from_numpy(encoded.numeric).to(device), torch.from_numpy(encoded.categories).to(device)
        )
        return np.asarray(torch.sigmoid(logits).cpu().numpy())


def _golden_bytes(network: Network, calibration: Calibration, spec: FeatureSpec) -> bytes:
    rows = golden_rows(spec)
    was_training = network.training
    device = next((str(weight.device) for weight in network.parameters()), "cpu")
    scores = _row_by_row(calibrated(network.eval(), calibration), rows, spec, device)
    network.train(was_training)
    sink = io.BytesIO()
    # The score is a column of its own place, last: a feature may be called "score" as well.
    table = rows.append_column(_SCORE, pa.array(scores, pa.float32()))
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def _row_by_row(network: nn.Module, rows: pa.Table, spec: FeatureSpec, device: str) -> np.ndarray:
    """The scores; BundleError where they are not one a row, or depend on the row's company, or on a draw."""
    scores = probabilities(network, rows, spec, device)
    if scores.shape != (rows.num_rows,):
        raise BundleError(
            f"the network gives logits of shape {scores.shape} for {rows.num_rows} rows",
            remedy="let its forward give one logit a row, of shape (rows,)",
        )
    order = np.arange(rows.num_rows)[::-1]
    half = order[: rows.num_rows // 2]
    again = probabilities(network, rows.take(pa.array(half)), spec, device)
    apart = float(np.abs(again - scores[half]).max())
    if apart > GOLDEN_TOLERANCE:  # not for NaN: weights that are none are told when they are loaded
        raise BundleError(
            f"a row's score moves by {apart:.2g} with the rows that it is scored with",
            remedy="let a logit depend on its own row alone, and on no draw once the network is in eval mode",
        )
    return scores


def golden_problems(
    network: nn.Module, spec: FeatureSpec, content: bytes, device: str, *, rows: int | None = ROWS
) -> list[str]:
    """Why the golden rows (`rows` of them, or any number) do not score as recorded; empty where they do."""
    try:
        table = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True).read()
        recorded = table.column(table.num_columns - 1).cast(pa.float64()).to_numpy()
        found = probabilities(network, table.select(range(table.num_columns - 1)), spec, device).astype(np.float64)
    except (pa.ArrowException, OSError, ContractError, DataError) as error:
        return [f"{files.GOLDEN} cannot be scored: {error}"]
    if len(found) != (rows or len(found)):
        return [f"{files.GOLDEN} holds {len(found)} rows, not {rows}"]
    is_same = np.abs(found - recorded) <= GOLDEN_TOLERANCE  # false for NaN on either side
    if is_same.all():
        return []
    row = int(np.argmin(is_same))
    return [f"{int((~is_same).sum())} golden rows differ: row {row} scores {found[row]}, recorded is {recorded[row]}"]
