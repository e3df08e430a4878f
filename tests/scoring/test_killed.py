"""A process killed in the middle of a day: what it finished is kept, and the table comes out as if nothing had been."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.scoring.day import ShardDone, score_day
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.layout import USER_SCORES, Layout, shard_file
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import commit, current

Deal = Callable[[pa.Table, int], Manifest]

SCRIPT = """
import datetime as dt, os, signal, sys
from pathlib import Path
from profile_assets.scoring import day as days
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.stages import commit

root, bundle, moment = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
layout, day = Layout(root=root, name="purchase"), dt.date(2026, 1, 5)

def die(*args, **keywords):
    os.kill(os.getpid(), signal.SIGKILL)

def die_after_5(done):
    if done.done == 5:
        die()

progress = die_after_5 if moment == "after a shard" else lambda done: None
if moment == "before a rename":
    days.atomic.replace_file = die
if moment == "before the manifest":
    days.seal = die
settings = ScoringSettings(batch_rows=256, device="cpu", workers=1)
staged = days.score_day(layout, day, bundle, settings, progress=progress)
if moment == "inside the commit":
    atomic.shutil.rmtree = die
commit(layout, day, staged)
"""


@pytest.mark.parametrize(
    ("moment", "kept"),
    [("before a rename", 0), ("after a shard", 5), ("before the manifest", 8), ("inside the commit", 8)],
)
def test_a_killed_day_is_taken_up_where_it_stopped(
    layout: Layout,
    day: dt.date,
    deal: Deal,
    make_users: Callable[..., pa.Table],
    make_bundle: Callable[..., Path],
    bundle_path: Path,
    small: ScoringSettings,
    tmp_path: Path,
    moment: str,
    kept: int,
    read_scores: Callable[[Path, Manifest], dict[str, float]],
) -> None:
    deal(make_users(800), 8)
    reference = score_day(layout, day, bundle_path, small)
    wanted = read_scores(reference.folder, reference.manifest)
    # A day of another model stands committed: readers must see it until the new one is whole.
    old = commit(layout, day, score_day(layout, day, make_bundle(seed=21), small))

    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(bundle_path), moment]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL

    seen = current(layout, USER_SCORES, day)
    assert seen is not None
    assert seen.digest == (reference.manifest.digest if moment == "inside the commit" else old.digest)
    told: list[ShardDone] = []
    again = score_day(layout, day, bundle_path, small, progress=told.append)
    assert [one.name for one in told if one.is_kept] == [shard_file(index, 8) for index in range(kept)]
    manifest = commit(layout, day, again)
    assert manifest.digest == reference.manifest.digest
    assert read_scores(layout.stage(USER_SCORES, day), manifest) == wanted
