"""The files of a bundle: which there are, what seals them, and reading them back as they were sealed.

`bundle.json` names each file with its size and sha256. The id digests weights, signature and spec: nothing else
moves a score. Files are read by their fixed names, never by a name that a bundle gives and never through a link,
and each once: what was digested is what is parsed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from profile_assets.errors import BundleError
from profile_assets.features.bins import Bins
from profile_assets.storage.atomic import disk_errors

FORMAT = 1
WEIGHTS = "weights.safetensors"
SIGNATURE = "signature.json"
SPEC = "feature_spec.json"
METRICS = "metrics.json"
SNAPSHOT = "data_snapshot.json"
PROVENANCE = "provenance.json"
GOLDEN = "golden.parquet"
SEAL = "bundle.json"
BINS = "bins"  # in METRICS: the histograms that training fixed, which move no score and so no id
FILES = (WEIGHTS, SIGNATURE, SPEC, METRICS, SNAPSHOT, PROVENANCE, GOLDEN)


def unusable(path: Path, problems: list[str]) -> BundleError:
    """The one error about a bundle: everything that was found wrong with it."""
    return BundleError(
        f"the bundle {path} cannot be used: {'; '.join(problems)}",
        remedy="restore that folder from a copy, or promote another bundle, or train a new one",
    )


def json_bytes(value: Any) -> bytes:
    """JSON as every bundle writes it: equal values have equal bytes."""
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def seal(contents: Mapping[str, bytes]) -> tuple[str, dict[str, Any]]:
    """The id of a bundle with these files, and what its bundle.json says."""
    files = {name: _entry(contents[name]) for name in FILES}
    bundle_id = _id_of({name: entry["sha256"] for name, entry in files.items()})
    return bundle_id, {"format": FORMAT, "id": bundle_id, "files": files}


def read_sealed(path: Path) -> dict[str, bytes]:
    """Every file of the bundle at `path`; BundleError listing each that is not what was sealed."""
    if path.is_symlink() or not path.is_dir():
        raise unusable(path, ["it is not a folder"])
    record = _read_seal(path)
    contents: dict[str, bytes] = {}
    problems = list(_seal_problems(path, record))
    for name in FILES:
        found = _read(path / name)
        if found is None:
            problems.append(f"{name} is missing or is not a plain file")
        elif name in record["files"] and record["files"][name] != _entry(found):
            problems.append(f"{name} is not what was sealed ({len(found)} bytes now)")
        else:
            contents[name] = found
    if problems:
        raise unusable(path, problems)
    return contents


def parse_json(path: Path, name: str, content: bytes) -> dict[str, Any]:
    """A JSON file of a bundle as an object; BundleError where it is none."""
    try:
        value = json.loads(content)
    except ValueError as error:
        raise unusable(path, [f"{name} is not JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise unusable(path, [f"{name} is not a JSON object"])
    return value


def bins_of(metrics: Mapping[str, Any]) -> Bins | None:
    """The bins among a bundle's metrics; None for a bundle that was made without."""
    return Bins.from_json(metrics[BINS]) if BINS in metrics else None


def read_bins(path: Path) -> Bins | None:
    """The bins of the bundle at `path`, read without loading the model; its metrics verified against its seal."""
    content, sealed = _read(path / METRICS), _read_seal(path)["files"].get(METRICS)
    if content is None or sealed != _entry(content):
        raise unusable(path, [f"{METRICS} is missing or is not what was sealed"])
    return bins_of(parse_json(path, METRICS, content))


def _read_seal(path: Path) -> dict[str, Any]:
    content = _read(path / SEAL)
    if content is None:
        raise unusable(path, [f"{SEAL} is missing or is not a plain file: the bundle was never finished"])
    record = parse_json(path, SEAL, content)
    if record.get("format") != FORMAT:
        raise unusable(path, [f"its format is {record.get('format')!r}, this version reads {FORMAT}"])
    if not isinstance(record.get("files"), dict):
        raise unusable(path, [f"{SEAL} names no files"])
    return record


def _seal_problems(path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    files = record["files"]
    for name in sorted(set(files) - set(FILES)):
        yield f"{SEAL} names {name!r}, which is no file of a bundle"
    for name in FILES:
        if name not in files:
            yield f"{SEAL} does not name {name}"
    digests = {name: entry.get("sha256") for name, entry in files.items() if isinstance(entry, dict)}
    if record.get("id") != _id_of(digests):
        yield f"its id {record.get('id')!r} is not the digest of its weights, signature and spec"
    if record.get("id") != path.name:
        yield f"the folder is called {path.name}, the bundle in it {record.get('id')!r}"


def _read(path: Path) -> bytes | None:
    """The bytes of a plain file; None where there is none, or a link to one."""
    if path.is_symlink() or not path.is_file():
        return None
    with disk_errors("cannot read", path):
        return path.read_bytes()


def _entry(content: bytes) -> dict[str, Any]:
    """What bundle.json says of a file."""
    return {"sha256": _sha256(content), "size_bytes": len(content)}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _id_of(digests: Mapping[str, Any]) -> str:
    joined = "".join(f"{name} {digests.get(name)}\n" for name in (WEIGHTS, SIGNATURE, SPEC))
    return f"b-{_sha256(joined.encode())[:16]}"
