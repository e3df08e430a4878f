"""A day scored once more, in full, from its shards alone: the truth that what is published is held against.

Nothing of what the day's own scoring left is kept or read. The scores come to lie in a folder of their own, of which
there is one: those of the last day that was scored so.
"""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

from profile_assets.scoring.canary import Canary
from profile_assets.scoring.day import all_facts, carrying_notes, parts_folder, tasks_of
from profile_assets.scoring.day import made_by as made_by_canary
from profile_assets.scoring.engines import Engine
from profile_assets.scoring.engines.local import score_on_this_machine
from profile_assets.scoring.fingerprint import code_version, maker
from profile_assets.scoring.incremental import Source
from profile_assets.scoring.running import Progress, run_tasks
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.tuning import settled
from profile_assets.storage import atomic
from profile_assets.storage.layout import RECONCILE, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import Staged, commit, require, seal

PARTS = f"{RECONCILE}_parts"


def score_in_full(
    layout: Layout,
    day: dt.date,
    bundle_path: Path,
    settings: ScoringSettings,
    *,
    canary: Canary | None = None,
    progress: Progress = lambda _: None,
    engine: Engine = score_on_this_machine,
) -> Manifest:
    """Score the day's committed shards into `layout.stage(RECONCILE, day)`; the caller holds the lock of RECONCILE.

    On an incremental profile the files have digests too, so that they can take the place of the day's own; a share
    that a canary scored is scored by that canary again, and then there are none.
    """
    settings, code, bundle_id = settled(layout, bundle_path, settings), code_version(), bundle_path.name
    shards = require(layout, USER_SHARDS, day)
    made_by = maker(bundle_id=bundle_id, code=code, settings=settings)
    carried = None
    if settings.mode == "incremental" and canary is None:
        carried = Source(layout=layout, made_by=made_by, earlier=None, why="scored in full to be held against")
    staged = atomic.empty_folder(layout.staging(RECONCILE, day))
    with parts_folder(layout, day, PARTS) as parts:
        tasks = tasks_of(layout, day, shards, bundle_path, settings, parts, code=code, carried=carried, canary=canary)
        results = run_tasks(staged, tasks, {}, engine, progress)
    manifest = Manifest(
        stage=RECONCILE,
        day=day.isoformat(),
        files=tuple(results[task.name].entry for task in tasks),
        made_from={USER_SHARDS: shards.digest, "bundle": bundle_id, "code": code} | made_by_canary(canary),
        facts=all_facts(bundle_id, code, results, carried, canary),
        notes={"scored": len(tasks), "kept": 0, **carrying_notes(carried, results)},
    )
    done = commit(layout, day, seal(layout, day, manifest))
    _leave_only(layout, day)
    return done


def _leave_only(layout: Layout, day: dt.date) -> None:
    kept = layout.stage(RECONCILE, day)
    for folder in kept.parent.glob("day=*"):
        if folder != kept:
            with atomic.disk_errors("cannot remove", folder):
                shutil.rmtree(folder)


def stage_as_scores(layout: Layout, day: dt.date) -> Staged:
    """The scores in full as the staged scores of their day, to be judged and committed like any; the caller holds the
    locks of the day's scores and of RECONCILE.
    """
    full = require(layout, RECONCILE, day)
    staged = atomic.empty_folder(layout.staging(USER_SCORES, day))
    for entry in full.files:
        source = layout.stage(RECONCILE, day) / entry.name
        with atomic.disk_errors("cannot copy", source):
            shutil.copyfile(source, staged / entry.name)
            atomic.fsync_path(staged / entry.name)
    manifest = Manifest(
        stage=USER_SCORES,
        day=full.day,
        files=full.files,
        made_from=full.made_from,
        facts=full.facts,
        notes=full.notes,
    )
    return seal(layout, day, manifest)
