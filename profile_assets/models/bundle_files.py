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
from profile_assets.storage.layout import SEAL_FILE

FORMAT = 1
WEIGHTS = "weights.safetensors"
SIGNATURE = "signature.json"
SPEC = "feature_spec.json"
METRICS = "metrics.json"
SNAPSHOT = "data_snapshot.json"
PROVENANCE = "provenance.json"
GOLDEN = "golden.parquet"
SEAL = SEAL_FILE
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


def read_sealed(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """The files of the bundle at `path` that are as they were sealed, and everything that is wrong with the others.

    BundleError where there is no seal to compare with.
    """
    if path.is_symlink() or not path.is_dir():
        raise unusable(path, ["it is not a folder"])
    record = _read_seal(path)
    contents: dict[str, bytes] = {}
    problems = [*_seal_problems(path, record), *_strangers(path)]
    for name in FILES:
        found = read(path / name)
        if found is None:
            problems.append(f"{name} is missing or is not a plain file")
        elif name in record["files"] and record["files"][name] != _entry(found):
            problems.append(f"{name} is not what was sealed ({len(found)} bytes now)")
        else:
            contents[name] = found
    return contents, problems


def _strangers(path: Path) -> Iterator[str]:
    """What else lies in the folder, hidden files apart, which file systems leave behind. None of it is opened."""
    for name in sorted(one.name for one in path.iterdir()):
        if name not in (*FILES, SEAL) and not name.startswith("."):
            yield f"it holds {name!r}, which is no file of a bundle"


def parse_json(name: str, content: bytes) -> dict[str, Any]:
    """A JSON file of a bundle as an object; BundleError where it is none."""
    try:
        value = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _no_object(name, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _no_object(name, "is not a JSON object")
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _no_object(name: str, why: str) -> BundleError:
    return BundleError(f"{name} {why}", remedy="restore that file from a copy")


def read_part(path: Path, name: str) -> dict[str, Any]:
    """One JSON file of the bundle at `path`, verified against its seal, without loading the model."""
    content, sealed = read(path / name), _read_seal(path)["files"].get(name)
    if content is None or sealed != _entry(content):
        raise unusable(path, [f"{name} is missing or is not what was sealed"])
    return parse_json(name, content)


def bins_of(metrics: Mapping[str, Any]) -> Bins | None:
    """The bins among a bundle's metrics; None for a bundle that was made without."""
    return Bins.from_json(metrics[BINS]) if BINS in metrics else None


def check_metrics(metrics: Mapping[str, Any]) -> bool:
    """True; BundleError unless the metrics are what scoring and reports take them for."""
    days = metrics.get("days", [])
    if not isinstance(days, list) or not all(isinstance(day, dict) for day in days):
        raise BundleError(f"{METRICS}: days is no list of tables", remedy="write what training writes, or leave it out")
    bins_of(metrics)
    return True


def read_bins(path: Path) -> Bins | None:
    """The bins of the bundle at `path`, read without loading the model; its metrics verified against its seal."""
    return bins_of(read_part(path, METRICS))


def _read_seal(path: Path) -> dict[str, Any]:
    content = read(path / SEAL)
    if content is None:
        raise unusable(path, [f"{SEAL} is missing or is not a plain file: the bundle was never finished"])
    try:
        record = parse_json(SEAL, content)
    except BundleError as error:
        raise unusable(path, [error.what]) from error
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


def read(path: Path) -> bytes | None:
    """The bytes of a plain file; None where there is none, or a link to one."""
    if path.is_symlink() or not path.is_file():
        return None
    with disk_errors("cannot read", path):
        return path.read_bytes()


def _entry(content: bytes) -> dict[str, Any]:
    """What bundle.json says of a file."""
    return {"sha256": file_digest(content), "size_bytes": len(content)}


def file_digest(content: bytes) -> str:
    """sha256, in hex."""
    return hashlib.sha256(content).hexdigest()


def _id_of(digests: Mapping[str, Any]) -> str:
    joined = "".join(f"{name} {digests.get(name)}\n" for name in (WEIGHTS, SIGNATURE, SPEC))
    return f"b-{file_digest(joined.encode())[:16]}"
