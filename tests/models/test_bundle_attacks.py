"""Bundles that were damaged or made to harm: each is one BundleError that says everything that is wrong."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from torch import Tensor

from profile_assets.errors import BundleError
from profile_assets.models.bundle import load_bundle
from profile_assets.models.bundle_files import FILES, GOLDEN, METRICS, SEAL, SIGNATURE, SPEC, WEIGHTS, json_bytes

Reseal = Callable[[Path, dict[str, bytes]], Path]
ChangeWeights = Callable[[Path, Callable[[dict[str, Tensor]], object]], Path]


def refusal(path: Path) -> str:
    with pytest.raises(BundleError) as caught:
        load_bundle(path)
    assert caught.value.remedy
    return str(caught.value)


def edit_json(path: Path, **changes: Any) -> bytes:
    return json_bytes({**json.loads(path.read_text()), **changes})


@pytest.mark.parametrize("name", [*FILES, SEAL])
def test_a_file_cut_by_one_byte(bundle_path: Path, name: str) -> None:
    content = (bundle_path / name).read_bytes()
    (bundle_path / name).write_bytes(content[:-2])  # the last byte of a JSON file is a line feed
    assert name in refusal(bundle_path)


@pytest.mark.parametrize("name", FILES)
def test_one_bit_flipped_anywhere(bundle_path: Path, name: str) -> None:
    content = bytearray((bundle_path / name).read_bytes())
    for place in (0, len(content) // 2, len(content) - 1):
        content[place] ^= 1
        (bundle_path / name).write_bytes(content)
        assert f"{name} is not what was sealed" in refusal(bundle_path)
        content[place] ^= 1


@pytest.mark.parametrize("name", [*FILES, SEAL])
def test_a_file_that_is_gone(bundle_path: Path, name: str) -> None:
    (bundle_path / name).unlink()
    assert f"{name} is missing" in refusal(bundle_path)


def test_every_damaged_file_is_told_at_once(bundle_path: Path) -> None:
    (bundle_path / WEIGHTS).write_bytes(b"short")
    (bundle_path / METRICS).unlink()
    (bundle_path / SPEC).write_text("{}")
    message = refusal(bundle_path)
    assert all(name in message for name in (WEIGHTS, METRICS, SPEC))


def test_files_swapped_between_two_places(bundle_path: Path) -> None:
    one, other = (bundle_path / SIGNATURE).read_bytes(), (bundle_path / SPEC).read_bytes()
    (bundle_path / SIGNATURE).write_bytes(other)
    (bundle_path / SPEC).write_bytes(one)
    message = refusal(bundle_path)
    assert SIGNATURE in message
    assert SPEC in message


def test_a_bundle_under_the_id_of_another(bundle_path: Path) -> None:
    assert "the folder is called b-0000000000000000" in refusal(
        bundle_path.rename(bundle_path.parent / "b-0000000000000000")
    )


def test_an_id_that_is_not_the_digest_of_the_contents(bundle_path: Path) -> None:
    (bundle_path / SEAL).write_bytes(edit_json(bundle_path / SEAL, id="b-0123456789abcdef"))
    assert "is not the digest of its weights, signature and spec" in refusal(bundle_path)


@pytest.mark.parametrize("name", ["../../secrets.json", "/etc/passwd", "sub/weights.safetensors", "extra.bin"])
def test_a_name_that_no_bundle_has_is_never_opened(bundle_path: Path, name: str) -> None:
    record = json.loads((bundle_path / SEAL).read_text())
    record["files"][name] = record["files"].pop(GOLDEN)
    (bundle_path / SEAL).write_bytes(json_bytes(record))
    message = refusal(bundle_path)
    assert f"names {name!r}, which is no file of a bundle" in message
    assert f"does not name {GOLDEN}" in message


@pytest.mark.parametrize("name", [*FILES, SEAL])
def test_a_link_in_place_of_a_file(bundle_path: Path, tmp_path: Path, name: str) -> None:
    shutil.move(bundle_path / name, tmp_path / name)
    (bundle_path / name).symlink_to(tmp_path / name)
    assert f"{name} is missing or is not a plain file" in refusal(bundle_path)


def test_a_link_in_place_of_the_folder(bundle_path: Path) -> None:
    moved = bundle_path.rename(bundle_path.parent / "elsewhere")
    bundle_path.symlink_to(moved)
    assert "it is not a folder" in refusal(bundle_path)


def test_no_bundle_at_all(tmp_path: Path) -> None:
    assert "it is not a folder" in refusal(tmp_path / "b-0123456789abcdef")


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"{", b"\xff\xfe", b'{"format": 1}', b'{"format": 1, "files": []}']
)
def test_a_seal_that_is_none(bundle_path: Path, content: bytes) -> None:
    (bundle_path / SEAL).write_bytes(content)
    refusal(bundle_path)


@pytest.mark.parametrize("entry", [None, 3, {}, {"sha256": 1, "size_bytes": "x"}])
def test_a_seal_whose_entries_are_none(bundle_path: Path, entry: Any) -> None:
    record = json.loads((bundle_path / SEAL).read_text())
    record["files"][WEIGHTS] = entry
    (bundle_path / SEAL).write_bytes(json_bytes(record))
    assert WEIGHTS in refusal(bundle_path)


def test_the_format_of_another_version(bundle_path: Path) -> None:
    (bundle_path / SEAL).write_bytes(edit_json(bundle_path / SEAL, format=2))
    assert "its format is 2, this version reads 1" in refusal(bundle_path)


@pytest.mark.parametrize("name", [SIGNATURE, SPEC])
def test_a_part_in_the_format_of_another_version(bundle_path: Path, reseal: Reseal, name: str) -> None:
    assert "format" in refusal(reseal(bundle_path, {name: edit_json(bundle_path / name, format=99)}))


def test_a_key_too_many_one_too_few_and_another_shape_are_told_together(
    bundle_path: Path, change_weights: ChangeWeights
) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors["extra"] = torch.zeros(1)
        del tensors["linear_slots"]
        tensors["first.bias"] = torch.zeros(3)
        tensors["embeddings"] = tensors["embeddings"].half()

    message = refusal(change_weights(bundle_path, change))
    for text in (
        "the weights lack linear_slots",
        "the weights hold extra, which the network has not",
        "first.bias is (3,) torch.float32, the network takes (16,) torch.float32",
        "torch.float16",
    ):
        assert text in message


def test_a_checkpoint_whose_keys_carry_a_prefix(bundle_path: Path, change_weights: ChangeWeights) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[f"module.{name}"] = tensors.pop(name)

    message = refusal(change_weights(bundle_path, change))
    assert "the weights lack embeddings" in message
    assert "the weights hold module.embeddings" in message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(bundle_path: Path, change_weights: ChangeWeights, value: float) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors["first.weight"][0, 0] = value
        tensors["first.bias"][1] = value

    message = refusal(change_weights(bundle_path, change))
    assert "first.weight holds 1 values that are no numbers" in message
    assert "first.bias holds 1 values that are no numbers" in message


def test_weights_of_the_right_shape_that_are_not_those_recorded(
    bundle_path: Path, change_weights: ChangeWeights
) -> None:
    moved = change_weights(bundle_path, lambda tensors: tensors["first.bias"].add_(0.5))
    assert "golden rows differ" in refusal(moved)


def test_weights_that_are_not_safetensors(bundle_path: Path, reseal: Reseal) -> None:
    pickled = io.BytesIO()
    torch.save({"a": torch.zeros(1)}, pickled)
    for content in (pickled.getvalue(), b"", b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}"):
        bundle_path = reseal(bundle_path, {WEIGHTS: content})
        message = refusal(bundle_path)
        assert "is not a safetensors file" in message or "the weights lack" in message


def test_a_signature_of_another_network(bundle_path: Path, reseal: Reseal) -> None:
    network = json.loads((bundle_path / SIGNATURE).read_text())["network"]
    bent = edit_json(bundle_path / SIGNATURE, network={**network, "hidden": [32, 8]})
    message = refusal(reseal(bundle_path, {SIGNATURE: bent}))
    assert "first.bias is (16,)" in message
    assert "the tensors of its signature are not those of its network" in message


@pytest.mark.parametrize(
    "changes", [{"network": None}, {"network": []}, {"inputs": None}, {"inputs": [1]}, {"tensors": 1}]
)
def test_a_signature_that_is_none(bundle_path: Path, reseal: Reseal, changes: dict[str, Any]) -> None:
    refusal(reseal(bundle_path, {SIGNATURE: edit_json(bundle_path / SIGNATURE, **changes)}))


def test_a_spec_with_its_columns_in_another_order(bundle_path: Path, reseal: Reseal) -> None:
    spec = json.loads((bundle_path / SPEC).read_text())
    bent = edit_json(bundle_path / SPEC, numeric=spec["numeric"][::-1])
    message = refusal(reseal(bundle_path, {SPEC: bent}))
    assert "the inputs of its signature are not the columns of its spec" in message


def test_a_vocabulary_of_the_same_size_in_another_order(bundle_path: Path, reseal: Reseal) -> None:
    spec = json.loads((bundle_path / SPEC).read_text())
    for category in spec["categorical"]:
        category["vocabulary"].reverse()
    assert "golden rows differ" in refusal(reseal(bundle_path, {SPEC: json_bytes(spec)}))


def test_a_vocabulary_that_has_grown(bundle_path: Path, reseal: Reseal) -> None:
    spec = json.loads((bundle_path / SPEC).read_text())
    spec["categorical"][0]["vocabulary"].append("new")
    assert "embeddings is" in refusal(reseal(bundle_path, {SPEC: json_bytes(spec)}))


def _golden(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_golden_rows_that_prove_nothing(bundle_path: Path, reseal: Reseal) -> None:
    table = pq.read_table(bundle_path / GOLDEN)
    nan = table.set_column(table.num_columns - 1, "score", pa.array(np.full(table.num_rows, np.nan, np.float32)))
    text = table.set_column(table.num_columns - 1, "score", pa.array(["high"] * table.num_rows))
    for content in (
        b"no parquet",
        _golden(table.slice(0, 0)),
        _golden(table.drop_columns(["age"])),
        _golden(nan),
        _golden(text),
    ):
        bundle_path = reseal(bundle_path, {GOLDEN: content})
        assert "golden" in refusal(bundle_path)


def test_damage_of_every_kind_is_told_in_one_message(bundle_path: Path, reseal: Reseal, tmp_path: Path) -> None:
    tensors = safetensors.torch.load((bundle_path / WEIGHTS).read_bytes())
    tensors["first.bias"][0] = float("nan")
    tensors["module.extra"] = tensors.pop("linear_slots")
    signature = edit_json(bundle_path / SIGNATURE, calibration={"scale": -1.0, "shift": 0.0}, tensors={})
    path = reseal(bundle_path, {WEIGHTS: safetensors.torch.save(tensors), SIGNATURE: signature})
    (path / METRICS).write_text("{")
    (path / "evil.py").write_text("raise SystemExit")
    shutil.move(path / GOLDEN, tmp_path / GOLDEN)
    (path / GOLDEN).symlink_to(tmp_path / GOLDEN)
    message = refusal(path)
    for text in (
        f"{METRICS} is not what was sealed",
        f"{GOLDEN} is missing or is not a plain file",
        "holds 'evil.py', which is no file of a bundle",
        "first.bias holds 1 values that are no numbers",
        "the weights lack linear_slots",
        "the weights hold module.extra",
        "is no calibration",
        "the tensors of its signature are not those of its network",
    ):
        assert text in message, text


@pytest.mark.parametrize("name", ["evil.py", "weights.bin", "weights.safetensors.bak"])
def test_a_file_too_many_is_told_and_never_opened(bundle_path: Path, name: str) -> None:
    (bundle_path / name).write_text("raise SystemExit")
    assert f"it holds {name!r}, which is no file of a bundle" in refusal(bundle_path)


def test_what_a_file_system_leaves_behind_is_no_attack(bundle_path: Path) -> None:
    (bundle_path / ".nfs0000").write_text("")
    assert load_bundle(bundle_path).id == bundle_path.name


def test_weights_swapped_with_those_of_another_bundle(bundle_path: Path, change_weights: ChangeWeights) -> None:
    other = bundle_path.parent / "copy"
    shutil.copytree(bundle_path, other)
    moved = change_weights(other, lambda tensors: tensors["first.bias"].add_(0.5))
    (bundle_path / WEIGHTS).write_bytes((moved / WEIGHTS).read_bytes())
    assert f"{WEIGHTS} is not what was sealed" in refusal(bundle_path)


def test_weights_saved_on_cuda_load_on_a_processor(bundle_path: Path, reseal: Reseal) -> None:
    """A safetensors file holds no device: what a saver notes about one is a note."""
    tensors = safetensors.torch.load((bundle_path / WEIGHTS).read_bytes())
    saved = safetensors.torch.save(tensors, metadata={"format": "pt", "device": "cuda:0"})
    bundle = load_bundle(reseal(bundle_path, {WEIGHTS: saved}))
    assert {weight.device.type for weight in bundle.inference.buffers()} == {"cpu"}


def test_a_header_that_claims_more_bytes_than_there_are(bundle_path: Path, reseal: Reseal) -> None:
    header = json.dumps({"first.bias": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    content = len(header).to_bytes(8, "little") + header + b"\0" * 64
    assert "is not a safetensors file" in refusal(reseal(bundle_path, {WEIGHTS: content}))


@pytest.mark.parametrize(
    "architecture", ["os:system", "subprocess:Popen", "torch.nn:Linear", "../evil:Net", "no.such.module:Net", "Net", 3]
)
def test_a_signature_that_names_another_class_calls_nothing(
    bundle_path: Path, reseal: Reseal, architecture: object
) -> None:
    network = json.loads((bundle_path / SIGNATURE).read_text())["network"]
    bent = edit_json(bundle_path / SIGNATURE, network={**network, "architecture": architecture})
    message = refusal(reseal(bundle_path, {SIGNATURE: bent}))
    assert "cannot be used" in message
    assert str(architecture) in message


@pytest.mark.parametrize("calibration", [{}, None, {"scale": 0, "shift": 0}, {"scale": 1, "shift": "x"}, []])
def test_a_calibration_that_is_none(bundle_path: Path, reseal: Reseal, calibration: object) -> None:
    bent = edit_json(bundle_path / SIGNATURE, calibration=calibration)
    assert "is no calibration" in refusal(reseal(bundle_path, {SIGNATURE: bent}))


def test_a_calibration_that_is_not_the_one_of_the_golden_rows(bundle_path: Path, reseal: Reseal) -> None:
    bent = edit_json(bundle_path / SIGNATURE, calibration={"scale": 1.0, "shift": 0.5})
    assert "golden rows differ" in refusal(reseal(bundle_path, {SIGNATURE: bent}))
