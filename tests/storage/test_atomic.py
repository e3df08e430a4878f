"""Renames that readers see whole or not at all, and locks that die with their holder."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from profile_assets.errors import DiskError, LockedError, ProfileAssetsError, StorageError
from profile_assets.storage import atomic


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked child that ends at once, whatever happens; gives its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def folder_with(path: Path, text: str) -> Path:
    path.mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (path / name).write_text(text, encoding="utf-8")
    return path


def texts(path: Path) -> dict[str, str]:
    return {one.name: one.read_text(encoding="utf-8") for one in path.iterdir()}


def test_names_are_never_the_same_twice() -> None:
    names = {atomic.unique_name("part") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f"part.{os.getpid()}-") for name in names)


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    staged, final = tmp_path / "staged", tmp_path / "deep" / "final"
    for text in ("one", "two"):
        staged.write_text(text, encoding="utf-8")
        atomic.replace_file(staged, final)
        assert final.read_text(encoding="utf-8") == text
        assert not staged.exists()


def test_a_folder_is_replaced_and_nothing_of_the_old_remains(tmp_path: Path) -> None:
    final = tmp_path / "table" / "day"
    atomic.replace_folder(folder_with(tmp_path / "staging" / "day", "old"), final)
    (final / "extra.txt").write_text("old", encoding="utf-8")
    atomic.replace_folder(folder_with(tmp_path / "staging" / "day", "new"), final)
    assert texts(final) == {"a.txt": "new", "b.txt": "new"}
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.parametrize("step", range(8))
def test_a_kill_between_any_two_steps_leaves_the_old_folder_the_new_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The child is stopped at its n-th call of the operating system; n runs past the last one."""
    final = tmp_path / "table" / "day"
    atomic.replace_folder(folder_with(tmp_path / "staging" / "day", "old"), final)
    staged = folder_with(tmp_path / "staging" / "day", "new")
    calls = 0

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            nonlocal calls
            if calls == step:
                os._exit(7)
            calls += 1
            return real(*arguments)

        return call

    monkeypatch.setattr(atomic.os, "replace", counted(os.replace))
    monkeypatch.setattr(atomic, "fsync_path", counted(atomic.fsync_path))
    monkeypatch.setattr(atomic.shutil, "rmtree", counted(atomic.shutil.rmtree))
    status = in_child(lambda: atomic.replace_folder(staged, final))
    monkeypatch.undo()
    assert status in (7, 9)
    assert not final.exists() or texts(final) in (
        {"a.txt": "old", "b.txt": "old"},
        {"a.txt": "new", "b.txt": "new"},
    )
    again = atomic.empty_folder(tmp_path / "staging" / "day")
    (again / "a.txt").write_text("again", encoding="utf-8")
    atomic.replace_folder(again, final)
    assert texts(final) == {"a.txt": "again"}


@pytest.mark.parametrize(
    ("number", "kind", "remedy"),
    [
        (errno.ENOSPC, DiskError, "free some space"),
        (errno.EDQUOT, DiskError, "quota"),
        (errno.EFBIG, DiskError, "limit on the size"),
        (errno.EXDEV, DiskError, "on one file system"),
        (errno.EACCES, DiskError, "writable"),
        (errno.EPERM, DiskError, "writable"),
        (errno.EROFS, DiskError, "writable"),
        (errno.EIO, StorageError, "check that disk"),
        (errno.ESTALE, StorageError, "check that disk"),
    ],
)
def test_what_the_system_refuses_names_the_path_and_the_remedy(
    tmp_path: Path, number: int, kind: type[ProfileAssetsError], remedy: str
) -> None:
    with pytest.raises(kind) as caught, atomic.disk_errors("cannot write", tmp_path / "file"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path / "file") in caught.value.what
    assert remedy in caught.value.remedy


def test_an_empty_folder_is_there_and_empty(tmp_path: Path) -> None:
    folder_with(tmp_path / "a" / "b", "old")
    assert list(atomic.empty_folder(tmp_path / "a" / "b").iterdir()) == []


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    atomic.remove_file(tmp_path / "nowhere" / "file")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    atomic.remove_file(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_record_is_written_in_one_step_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    for value in ({"day": "a"}, {"day": "b"}):
        atomic.write_json(tmp_path / "records" / "one.json", value, staging=tmp_path / "staging")
        assert json.loads((tmp_path / "records" / "one.json").read_text(encoding="utf-8")) == value
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_record_that_is_no_json_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    atomic.write_json(path, {"rate": 1.0}, staging=tmp_path / "staging")
    with pytest.raises(ValueError, match="JSON"):
        atomic.write_json(path, {"rate": float("nan")}, staging=tmp_path / "staging")
    assert json.loads(path.read_text(encoding="utf-8")) == {"rate": 1.0}


def test_what_a_killed_writer_of_a_record_left_is_swept_by_the_next_and_that_of_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, path = tmp_path / "staging", tmp_path / "one.json"

    def die(*_: object) -> None:
        os._exit(7)

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "replace_file", die)
        assert in_child(lambda: atomic.write_json(path, {}, staging=staging)) == 7
    assert len(list(staging.iterdir())) == 1
    (staging / "other.json").write_text("{}", encoding="utf-8")
    (staging / atomic.unique_name("of-another-day.json")).write_text("{}", encoding="utf-8")
    with atomic.own_file(staging, path.name) as living:
        atomic.write_json(path, {"day": "a"}, staging=staging)
        assert {one.name for one in staging.iterdir()} == {living.name, "other.json"}
    assert [one.name for one in staging.iterdir()] == ["other.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_lock_that_another_user_left_is_named_with_its_owner() -> None:
    path = Path(tempfile.mkdtemp()) / "day.lock"  # where everybody may look
    path.parent.chmod(0o777)
    path.touch(mode=0o600)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(65534)
            with atomic.locked(path, what="the day"):
                pass
        except DiskError as error:
            status = 0 if "a file of user 0, and this process is user 65534" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    shutil.rmtree(path.parent)


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    path, told = tmp_path / "locks" / "day.lock", []
    with atomic.locked(path, what="raw_users of 2026-01-05"):
        with pytest.raises(LockedError, match=f"raw_users of 2026-01-05 .* process {os.getpid()}"):
            with atomic.locked(path, what="raw_users of 2026-01-05", wait_s=0.0, on_wait=told.append):
                pass
    with atomic.locked(path, what="raw_users of 2026-01-05", wait_s=0.0):
        pass


def test_a_waiting_writer_gets_its_turn_and_says_once_that_it_waits(tmp_path: Path) -> None:
    path, told, is_told = tmp_path / "day.lock", list[str](), threading.Event()
    order: list[str] = []

    def note(message: str) -> None:
        told.append(message)
        is_told.set()

    def second() -> None:
        with atomic.locked(path, what="the day", poll_s=0.001, on_wait=note):
            order.append("second")

    thread = threading.Thread(target=second)
    with atomic.locked(path, what="the day"):
        thread.start()
        assert is_told.wait(60)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert len(told) == 1


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "day.lock"

    def hold_and_die() -> None:
        with atomic.locked(path, what="the day", wait_s=0.0):
            os._exit(7)

    assert in_child(hold_and_die) == 7
    with atomic.locked(path, what="the day", wait_s=0.0):
        pass


def test_readers_share_a_lock_and_keep_a_writer_out(tmp_path: Path) -> None:
    path = tmp_path / "day.lock"
    with atomic.locked(path, what="the day", is_shared=True), atomic.locked(path, what="the day", is_shared=True):
        with pytest.raises(LockedError), atomic.locked(path, what="the day", wait_s=0.0):
            pass
    with atomic.locked(path, what="the day", wait_s=0.0):
        with pytest.raises(LockedError), atomic.locked(path, what="the day", is_shared=True, wait_s=0.0):
            pass
