"""Processes score what one process would, and none of them outlives its day."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from profile_assets.errors import DataError, StorageError
from profile_assets.scoring.day import ShardDone, score_day
from profile_assets.scoring.engines.here import score_here
from profile_assets.scoring.engines.local import (
    MAX_ATTEMPTS,
    SMALL_DAY_ROWS,
    num_workers,
    score_in_processes,
    score_on_this_machine,
)
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardTask
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import USER_SCORES, Layout
from profile_assets.storage.records import Manifest

Deal = Callable[[pa.Table, int], Manifest]
MakeUsers = Callable[..., pa.Table]

SCRIPT = """
import datetime as dt, functools, os, signal, sys
from pathlib import Path
import psutil
from profile_assets.scoring.day import score_day
from profile_assets.scoring.engines.local import score_in_processes
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.layout import Layout

def die(done):
    print(*(child.pid for child in psutil.Process().children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ != "__main__":
    raise SystemExit("the script was imported again")
score_day(
    Layout(root=Path(sys.argv[1]), name="purchase"), dt.date(2026, 1, 5), Path(sys.argv[2]),
    ScoringSettings(batch_rows=256, device="cpu"), progress=die, engine=functools.partial(score_in_processes, count=2),
)
"""


def children() -> list[psutil.Process]:
    """Scoring processes of this one; multiprocessing's own helper is none."""
    return [one for one in psutil.Process().children() if "spawn_main" in " ".join(one.cmdline())]


@pytest.mark.parametrize(
    ("workers", "tasks", "rows", "places", "wanted"),
    [
        (None, 16, SMALL_DAY_ROWS, 8, 8),
        (None, 16, SMALL_DAY_ROWS - 1, 8, 1),
        (None, 1, 10**8, 8, 1),
        (None, 4, 10**8, 8, 4),
        (None, 16, 10**8, 0, 1),
        (3, 16, 10**8, 8, 3),
        (3, 16, 10, 8, 3),
        (3, 2, 10, 8, 2),
        (1, 16, 10**8, 8, 1),
    ],
)
def test_the_number_of_processes(workers: int | None, tasks: int, rows: int, places: int, wanted: int) -> None:
    settings = ScoringSettings(workers=workers)
    assert num_workers(settings, num_tasks=tasks, rows=rows, places=places) == wanted


def test_no_shards_need_no_process() -> None:
    assert list(score_on_this_machine([])) == []


def test_processes_write_the_day_that_one_process_writes_even_where_one_is_killed(
    layout: Layout, day: dt.date, deal: Deal, make_users: MakeUsers, bundle_path: Path, small: ScoringSettings
) -> None:
    deal(make_users(2000), 12)
    wanted = score_day(layout, day, bundle_path, small, engine=score_here).manifest
    shutil.rmtree(layout.staging(USER_SCORES, day))
    told: list[ShardDone] = []
    killed: list[psutil.Process] = []

    def kill_the_first_ones(done: ShardDone) -> None:
        if not told:
            killed.extend(children())
            for child in killed:
                child.kill()
        told.append(done)

    two = dataclasses.replace(small, workers=2)
    found = score_day(layout, day, bundle_path, two, progress=kill_the_first_ones).manifest
    assert len(killed) == 2
    assert found.digest == wanted.digest
    assert found.notes["scored"] == 12
    assert len({one.name for one in told}) == len(told) == 12
    assert children() == []


def test_an_error_names_its_shard_and_user_and_ends_every_process(
    layout: Layout, day: dt.date, deal: Deal, make_users: MakeUsers, bundle_path: Path, small: ScoringSettings
) -> None:
    users = make_users(300)
    spent = users.column("spent").to_pylist()
    spent[123] = float("inf")
    deal(users.set_column(3, "spent", pa.array(spent, pa.float32())), 6)
    with pytest.raises(
        DataError, match=r"shard-0\d-of-06\.parquet: column spent holds inf for user '000123'"
    ) as caught:
        score_day(layout, day, bundle_path, small, engine=functools.partial(score_in_processes, count=2))
    assert "minimum and a maximum" in caught.value.remedy
    assert children() == []


def test_a_shard_that_kills_every_process_is_given_up_and_named(
    tmp_path: Path, bundle_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A task that no process can take ends each one with a traceback, which nobody catches."""
    task = ShardTask(
        source=tmp_path / "shard-00-of-01.parquet",
        target=tmp_path / "scores.parquet",
        bundle_path=bundle_path,
        settings=ScoringSettings(device="cpu"),
        fingerprint="f",
        keys=KeySet(count=1, md5_sum=1),
    )
    deadly = dataclasses.replace(task, settings=Deadly())  # type: ignore[arg-type]
    with pytest.raises(StorageError, match=rf"{MAX_ATTEMPTS} scoring processes died on shard-00-of-01\.parquet"):
        list(score_in_processes([deadly], count=2))
    assert capfd.readouterr().err.count("Traceback") >= MAX_ATTEMPTS
    assert children() == []


@dataclasses.dataclass(frozen=True)
class Deadly:
    """Settings that no process can work with."""

    device: str = "cpu"


def test_processes_end_with_a_parent_that_was_killed(
    layout: Layout, day: dt.date, deal: Deal, make_users: MakeUsers, bundle_path: Path, tmp_path: Path
) -> None:
    del layout, day
    deal(make_users(2000), 12)
    script = tmp_path / "run.py"
    script.write_text(SCRIPT, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(bundle_path)], check=False, capture_output=True, text=True
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    pids = [int(word) for word in ran.stdout.split()]
    assert len(pids) >= 2
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
