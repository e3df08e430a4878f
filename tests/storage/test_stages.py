"""A stage is what was sealed, byte for byte, or it is not there."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.errors import CorruptError, DataError
from profile_assets.storage import atomic
from profile_assets.storage.keys import key_set_of
from profile_assets.storage.layout import MANIFEST_FILE, RAW_USERS, USERS_FILE, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import Staged, commit, current, describe, require, seal

DAY = dt.date(2026, 1, 5)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path, name="purchase")


def staged_day(layout: Layout, ids: list[str], *, day: dt.date = DAY) -> Staged:
    folder = atomic.empty_folder(layout.staging(RAW_USERS, day))
    table = pa.table({"user_id": pa.array(ids, pa.string())})
    with ParquetSink(folder / USERS_FILE, table.schema) as sink:
        sink.write(table)
    files = (describe(folder / USERS_FILE, seconds=1.25),)
    return seal(layout, day, Manifest(stage=RAW_USERS, day=day.isoformat(), files=files, made_from={}))


def test_a_file_is_described_by_what_is_read_back(layout: Layout) -> None:
    staged = staged_day(layout, ["b", "a", "a"])
    (entry,) = staged.manifest.files
    assert (entry.name, entry.rows, entry.seconds) == (USERS_FILE, 3, 1.25)
    assert entry.keys == key_set_of(pa.array(["a", "a", "b"]))
    assert entry.size_bytes == (staged.folder / USERS_FILE).stat().st_size


def test_a_stage_is_there_only_once_it_is_committed(layout: Layout) -> None:
    staged = staged_day(layout, ["a"])
    assert current(layout, RAW_USERS, DAY) is None
    with pytest.raises(DataError, match="raw_users of 2026-01-05 is not there"):
        require(layout, RAW_USERS, DAY)
    commit(layout, DAY, staged)
    assert require(layout, RAW_USERS, DAY) == staged.manifest
    assert not staged.folder.exists()


def test_a_new_day_takes_the_place_of_the_old_one_whole(layout: Layout) -> None:
    commit(layout, DAY, staged_day(layout, ["a", "b"]))
    (layout.stage(RAW_USERS, DAY) / "extra.parquet").write_bytes(b"")
    commit(layout, DAY, staged_day(layout, ["c"]))
    assert {path.name for path in layout.stage(RAW_USERS, DAY).iterdir()} == {USERS_FILE, MANIFEST_FILE}
    assert require(layout, RAW_USERS, DAY).rows == 1


def test_a_committed_stage_handed_in_again_stays_as_it_is(layout: Layout) -> None:
    manifest = commit(layout, DAY, staged_day(layout, ["a"]))
    same = Staged(folder=layout.stage(RAW_USERS, DAY), manifest=manifest)
    assert commit(layout, DAY, same) == manifest
    assert require(layout, RAW_USERS, DAY) == manifest


@pytest.mark.parametrize("damage", ["cut", "longer", "a bit", "gone"])
def test_a_file_that_is_not_what_was_sealed_is_refused(layout: Layout, damage: str) -> None:
    commit(layout, DAY, staged_day(layout, ["a", "b"]))
    path = layout.stage(RAW_USERS, DAY) / USERS_FILE
    content = path.read_bytes()
    changed = {"cut": content[:-1], "longer": content + b"x", "a bit": bytes([content[0] ^ 1]) + content[1:]}
    path.unlink() if damage == "gone" else path.write_bytes(changed[damage])
    with pytest.raises(CorruptError, match=r"users\.parquet is not the file"):
        require(layout, RAW_USERS, DAY)


def test_a_touched_file_is_still_the_same(layout: Layout) -> None:
    manifest = commit(layout, DAY, staged_day(layout, ["a", "b"]))
    os.utime(layout.stage(RAW_USERS, DAY) / USERS_FILE, (0, 0))
    assert require(layout, RAW_USERS, DAY) == manifest


def test_a_manifest_that_cannot_be_read_is_not_taken_for_an_absent_day(layout: Layout) -> None:
    commit(layout, DAY, staged_day(layout, ["a"]))
    layout.manifest(RAW_USERS, DAY).write_text("{", encoding="utf-8")
    with pytest.raises(CorruptError, match=r"manifest\.json"):
        current(layout, RAW_USERS, DAY)


def test_a_folder_is_only_committed_for_its_own_day_and_with_its_own_manifest(layout: Layout) -> None:
    staged = staged_day(layout, ["a"])
    with pytest.raises(CorruptError, match="raw_users of 2026-01-05"):
        commit(layout, DAY + dt.timedelta(days=1), staged)
    other = dataclasses.replace(staged.manifest, facts={"read": 1})
    with pytest.raises(CorruptError, match="sealed with another manifest"):
        commit(layout, DAY, dataclasses.replace(staged, manifest=other))
    with pytest.raises(CorruptError, match="raw_users of 2026-01-05"):
        seal(layout, DAY + dt.timedelta(days=1), staged.manifest)
    assert current(layout, RAW_USERS, DAY) is None


def test_a_committed_manifest_that_was_edited_is_not_handed_back(layout: Layout) -> None:
    commit(layout, DAY, staged_day(layout, ["a"]))
    path = layout.manifest(RAW_USERS, DAY)
    path.write_text(path.read_text(encoding="utf-8").replace('"facts": {}', '"facts": {"a": 1}'), encoding="utf-8")
    for read in (current, require):
        with pytest.raises(CorruptError, match="was changed"):
            read(layout, RAW_USERS, DAY)


def test_one_day_committed_touches_no_other(layout: Layout) -> None:
    other = DAY + dt.timedelta(days=1)
    first = commit(layout, DAY, staged_day(layout, ["a"]))
    commit(layout, other, staged_day(layout, ["b"], day=other))
    assert require(layout, RAW_USERS, DAY) == first


def test_a_null_id_does_not_pass_as_a_user(layout: Layout, tmp_path: Path) -> None:
    del layout
    table = pa.table({"user_id": pa.array(["a", None], pa.string())})
    with ParquetSink(tmp_path / "a.parquet", table.schema) as sink:
        sink.write(table)
    with pytest.raises(DataError, match="1 ids are null"):
        describe(tmp_path / "a.parquet")
