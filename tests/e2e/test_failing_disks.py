"""Disks that will not take a day, and days that meet: the day before stays whole, and what to do is said."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.read import newest_day
from profile_assets.storage.published import read_record

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
TABLE = "feature_store/offline/ds=2026-01-05"


@pytest.fixture(scope="module")
def whole(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The state of a root on which the day was run and nothing happened."""
    root = small.copy(tmp_path_factory.mktemp("whole") / "root")
    assert small.run(root)["status"] == 0
    return small.state(root)


def require_refused_and_old(small: Any, root: Path, answer: dict[str, Any], *words: str) -> None:
    """The day stopped with an error for a person, and readers see what they saw before."""
    assert answer["status"] == 2, answer
    kind, told = answer["error"]
    assert kind == "DiskError"
    assert [word for word in words if word not in told] == [], told
    old = small.state(small.start)
    assert (small.rows(root), small.looked_up(root)) == (old.rows, old.online)


@contextmanager
def full_disk(mib: int) -> Iterator[Path | None]:
    """A disk of that size; None where this user may not mount one."""
    folder = Path(tempfile.mkdtemp(prefix="disk"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=755", "tmpfs", str(folder)], check=False, capture_output=True
    )
    try:
        yield folder if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def fill(folder: Path, left_bytes: int) -> Path:
    """A file that leaves so much of the disk."""
    path = folder / "filling"
    with path.open("wb") as file:
        file.truncate(0)
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(folder).free - left_bytes))
    return path


# Too little at once is said by the look before a stage; less than a page or two of it is only met on the way.
@pytest.mark.parametrize("left_bytes", [0, 4096, 8192, 16384, 24576])
def test_a_full_disk_stops_the_day_and_the_day_before_stays(
    small: Any, whole: Any, tmp_path: Path, left_bytes: int
) -> None:
    with full_disk(4) as disk:
        if disk is None:  # the same by a bound on the size of files, which anybody may set
            root = small.copy(tmp_path / "root")
            answer = small.run(root, largest_file=left_bytes // 8)
            require_refused_and_old(small, root, answer)
        else:
            root = small.copy(disk / "root")
            filling = fill(disk, left_bytes)
            answer = small.run(root)
            require_refused_and_old(small, root, answer, "free some space")
            filling.unlink()
        assert small.run(root)["status"] == 0
        small.require_whole(root, whole)


def test_old_days_are_pruned_from_a_disk_that_has_no_room_for_anything(small: Any) -> None:
    """The table's days are old by now, and Dagster, whose storage lies on the same disk, cannot write a byte."""
    with full_disk(6) as disk:
        if disk is None:
            pytest.skip("this user may not mount a disk")
        root = small.copy(disk / "root")
        for day in ("2026-01-06", "2026-01-07"):
            small.put_source(root, dt.date.fromisoformat(day))
            assert small.run(root, day=dt.date.fromisoformat(day))["status"] == 0
        (root / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
        fill(disk, 0)
        done = command(root, "prune")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "only locks tell which days are worked on" in done.stderr
        layout = small.layout(root)
        left = {path.name for path in layout.stage("raw_users", small.day).iterdir()}
        assert left == {"manifest.json", "pruned.json"}
        assert shutil.disk_usage(disk).free > 0


def command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PROFILE_DATA": str(root), "PROFILE_CONFIG": str(root / "profile-1.toml")}
    environment.pop("DAGSTER_HOME", None)
    run = [sys.executable, "-m", "profile_assets.cli", *words]
    return subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("largest_file", [0, 600, 1400])
def test_a_bound_on_the_size_of_files_stops_the_day_and_the_day_before_stays(
    small: Any, whole: Any, tmp_path: Path, largest_file: int
) -> None:
    root = small.copy(tmp_path / "root")
    require_refused_and_old(small, root, small.run(root, largest_file=largest_file), "raise the limit")
    assert small.run(root)["status"] == 0
    small.require_whole(root, whole)


def test_a_staging_folder_on_another_disk_is_refused_by_name(small: Any, whole: Any, tmp_path: Path) -> None:
    root = small.copy(tmp_path / "root")
    staging = small.layout(root).staging_root
    shutil.rmtree(staging)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        assert Path(elsewhere).stat().st_dev != root.stat().st_dev, "/dev/shm is a disk of its own on every Linux"
        staging.symlink_to(elsewhere)
        require_refused_and_old(small, root, small.run(root), "_staging included, on one file system")
    staging.unlink()
    assert small.run(root)["status"] == 0
    small.require_whole(root, whole)


@pytest.mark.parametrize("where", ["_staging/records", "raw_users", "user_scores", TABLE])
def test_a_folder_that_may_not_be_written_is_refused_by_name(small: Any, whole: Any, where: str) -> None:
    """Run as somebody else: root may write anywhere."""
    home = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        home.chmod(0o755)
        root = small.copy(home / "root")
        closed = small.layout(root).home / where
        own(root, NOBODY)
        closed.chmod(0o555)
        answer = small.run(root, **({"user": NOBODY} if os.geteuid() == 0 else {}))
        require_refused_and_old(small, root, answer, "make that folder writable", where)
        closed.chmod(0o755)
        assert small.run(root)["status"] == 0
        small.require_whole(root, whole)
    finally:
        shutil.rmtree(home)


def own(root: Path, user: int) -> None:
    if os.geteuid() == 0:
        for path in [root, *root.rglob("*")]:
            os.chown(path, user, user)


def test_two_runs_of_one_day_at_once_give_one_days_result(small: Any, whole: Any, tmp_path: Path) -> None:
    root = small.copy(tmp_path / "root")
    answers = small.run_together(root, small.day, small.day)
    assert [answer["status"] for answer in answers] == [0, 0]
    small.require_whole(root, whole)
    online = small.layout(root).online / "versions"
    # Those of the two days before, and one of this: the second run found all of it done.
    assert len(list(online.iterdir())) == 3


@pytest.mark.parametrize("turn", range(3))
def test_of_two_days_that_are_published_at_once_the_newest_is_live(small: Any, tmp_path: Path, turn: int) -> None:
    root = small.copy(tmp_path / "root")
    small.put_source(root, small.before)
    days = [small.before, small.day]
    answers = small.run_together(root, *(days if turn % 2 else days[::-1]))
    assert [answer["status"] for answer in answers] == [0, 0]
    layout = small.layout(root)
    live = SqliteStore(layout).live()
    assert live is not None
    assert (live.day, newest_day(layout)) == (small.day, small.day)
    told = {day: read_record(layout, day).targets["online"].state for day in days}
    assert told == {small.before: "older", small.day: "done"}
