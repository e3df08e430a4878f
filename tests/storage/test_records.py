"""A manifest says what was written; its digest says what that is, not when it was made."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from profile_assets.errors import CorruptError
from profile_assets.storage.keys import KeySet
from profile_assets.storage.records import FileEntry, Manifest, digest_of, read_json, read_manifest

FILE = FileEntry(
    name="shard-00-of-01.parquet", rows=2, size_bytes=10, digest="d", keys=KeySet(count=2, md5_sum=5), seconds=1.5
)
MANIFEST = Manifest(
    stage="user_scores",
    day="2026-01-05",
    files=(FILE,),
    made_from={"user_shards": "s", "bundle": "b-1"},
    facts={"num_shards": 1},
    notes={"seconds": 2.0},
)


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def home(root: Path, folder: str = "user_scores/day=2026-01-05") -> Path:
    """Where the manifest of that stage and day belongs."""
    path = root / folder / "manifest.json"
    path.parent.mkdir(parents=True)
    return path


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_manifest(write(home(tmp_path), MANIFEST.to_json())) == MANIFEST


@pytest.mark.parametrize(
    "change",
    [
        {"day": "2026-01-06"},
        {"stage": "user_shards"},
        {"facts": {"bundle_id": "b-2"}},
        {"made_from": {}},
        {"digest": 0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_manifest_that_was_edited_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(CorruptError, match="was changed"):
        read_manifest(write(home(tmp_path), {**MANIFEST.to_json(), **change}))


def test_a_manifest_from_which_a_file_was_dropped_is_refused(tmp_path: Path) -> None:
    empty = {"files": [], "rows": 0, "keys": KeySet().to_json()}
    with pytest.raises(CorruptError, match="was changed"):
        read_manifest(write(home(tmp_path), {**MANIFEST.to_json(), **empty}))


@pytest.mark.parametrize("folder", ["user_shards/day=2026-01-05", "user_scores/day=2026-01-06"])
def test_a_manifest_in_the_place_of_another_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(CorruptError, match="is that of user_scores of 2026-01-05"):
        read_manifest(write(home(tmp_path, folder), MANIFEST.to_json()))


def test_times_and_notes_are_no_part_of_the_digest() -> None:
    slower = dataclasses.replace(FILE, seconds=99.0)
    assert dataclasses.replace(MANIFEST, files=(slower,), notes={}).digest == MANIFEST.digest


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "user_shards"},
        {"day": "2026-01-06"},
        {"files": ()},
        {"files": (dataclasses.replace(FILE, digest="e"),)},
        {"files": (dataclasses.replace(FILE, keys=KeySet(count=2, md5_sum=6)),)},
        {"made_from": {"user_shards": "t", "bundle": "b-1"}},
        {"facts": {"num_shards": 2}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_the_data_is_and_comes_from_is_in_the_digest(change: dict[str, Any]) -> None:
    assert dataclasses.replace(MANIFEST, **change).digest != MANIFEST.digest


def test_the_order_of_keys_does_not_change_a_digest() -> None:
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    with pytest.raises(ValueError, match="JSON"):
        digest_of({"a": float("nan")})


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 2}', "\x00\x01"])
def test_what_is_no_record_is_named(tmp_path: Path, content: str) -> None:
    with pytest.raises(CorruptError, match=r"manifest\.json"):
        read_json(write(tmp_path / "manifest.json", content))


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match=r"manifest\.json"):
        read_manifest(tmp_path / "manifest.json")


@pytest.mark.parametrize("key", ["stage", "files", "rows", "keys", "facts", "digest"])
def test_a_manifest_that_lacks_something_is_named(tmp_path: Path, key: str) -> None:
    value = MANIFEST.to_json()
    del value[key]
    with pytest.raises(CorruptError, match=key):
        read_manifest(write(home(tmp_path), value))


@pytest.mark.parametrize("change", [{"rows": 3}, {"keys": {"count": 2, "md5_sum": "0" * 32}}], ids=["rows", "keys"])
def test_files_that_do_not_add_up_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(CorruptError, match="do not add up"):
        read_manifest(write(home(tmp_path), {**MANIFEST.to_json(), **change}))
