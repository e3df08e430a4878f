"""A day's scores: every shard scored by one bundle, what an earlier run finished kept, nothing else left.

A score file is its own checkpoint: where the fingerprint in its footer is the one that would be written now, and it
holds the ids and scores of which its footer has the digest, it is not made again. One that was committed must be what
its manifest describes, too. Files come in under their final names by one rename each, into a staged folder
that holds exactly one file a shard when it is sealed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError
from profile_assets.scoring.canary import CANARY, WHY_FULL, Canary, canary_facts
from profile_assets.scoring.engines import Engine
from profile_assets.scoring.engines.local import score_on_this_machine
from profile_assets.scoring.fingerprint import code_version, fingerprint
from profile_assets.scoring.incremental import Source, source_of_carried
from profile_assets.scoring.running import Progress, facts_of, run_tasks
from profile_assets.scoring.running import ShardDone as ShardDone  # part of what this module offers
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardResult, ShardTask, has_fingerprint, kept_shard
from profile_assets.scoring.tuning import settled
from profile_assets.storage import atomic
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.records import Manifest
from profile_assets.storage.space import require_space
from profile_assets.storage.stages import Staged, current, is_whole, require, seal

PARTS = f"{USER_SCORES}_parts"
ROW_BYTES = {"full": 4, "incremental": 12}
"""Beside an id: the score, and the digest of the model's input. What is asked for by that came to 1.5 times what was
taken, and more where the shards have more than ids (benchmarks/space.py)."""


def score_day(
    layout: Layout,
    day: dt.date,
    bundle_path: Path,
    settings: ScoringSettings,
    *,
    canary: Canary | None = None,
    progress: Progress = lambda _: None,
    engine: Engine = score_on_this_machine,
) -> Staged:
    """Score the day's committed shards into a sealed staged folder; the caller holds the day's lock.

    Committed scores that would come out the same, and are whole, are handed back as they are. A `canary` scores its
    share of the users, and such a day is scored in full.
    """
    began = time.perf_counter()
    is_stopped = canary is not None and settings.mode == "incremental"
    settings = dataclasses.replace(settings, mode="full") if is_stopped else settings
    settings, code, bundle_id = settled(layout, bundle_path, settings), code_version(), bundle_path.name
    shards = require(layout, USER_SHARDS, day)
    made_from = {USER_SHARDS: shards.digest, "bundle": bundle_id, "code": code} | made_by(canary)
    with (
        source_of_carried(layout, day, bundle_id=bundle_id, code=code, settings=settings) as carried,
        parts_folder(layout, day, PARTS) as parts,
    ):
        made_from |= {} if carried is None else carried.made_from
        tasks = tasks_of(layout, day, shards, bundle_path, settings, parts, code=code, carried=carried, canary=canary)
        done = _unchanged(layout, day, tasks, made_from)
        if done is not None:
            return _as_committed(layout, day, done, progress)
        kept = _keep(layout, day, tasks)
        _require_space(layout, day, shards, kept, ROW_BYTES[settings.mode])
        results = run_tasks(layout.staging(USER_SCORES, day), tasks, kept, engine, progress)
    manifest = Manifest(
        stage=USER_SCORES,
        day=day.isoformat(),
        files=tuple(results[task.name].entry for task in tasks),
        made_from=made_from,
        facts=all_facts(bundle_id, code, results, carried, canary),
        notes={
            "scored": len(tasks) - len(kept),
            "kept": len(kept),
            "batch_rows": sorted({result.batch_rows for result in results.values()}),
            "seconds": round(time.perf_counter() - began, 3),
            **carrying_notes(carried, results),
            **({"why_full": WHY_FULL} if is_stopped else {}),
        },
    )
    return seal(layout, day, manifest)


def made_by(canary: Canary | None) -> dict[str, str]:
    """What a canary adds to what the scores are made from."""
    return {} if canary is None else {CANARY: canary.bundle_id}


def all_facts(
    bundle_id: str, code: str, results: Mapping[str, ShardResult], carried: Source | None, canary: Canary | None
) -> dict[str, Any]:
    """What belongs to the scores: of the shards, of what was carried, of the canary's users."""
    facts = facts_of(bundle_id, code, results)
    if carried:
        facts["carrying"] = carried.facts([result.carrying for result in results.values()])
    if canary is not None:
        facts[CANARY] = canary_facts(canary, {name: result.canary for name, result in sorted(results.items())})
    return facts


def carrying_notes(carried: Source | None, results: Mapping[str, ShardResult]) -> dict[str, Any]:
    """What is worth a note of the carrying; nothing on a day that could carry nothing."""
    return {"carrying": carried.notes([result.carrying for result in results.values()])} if carried else {}


@contextlib.contextmanager
def parts_folder(layout: Layout, day: dt.date, name: str) -> Iterator[Path]:
    """A folder for files in the making. What a killed run left there goes first, what this one leaves goes last."""
    folder = atomic.empty_folder(layout.staging(name, day))
    try:
        yield folder
    finally:
        with atomic.disk_errors("cannot remove", folder):
            shutil.rmtree(folder)


def tasks_of(
    layout: Layout,
    day: dt.date,
    shards: Manifest,
    bundle_path: Path,
    settings: ScoringSettings,
    parts: Path,
    *,
    code: str,
    carried: Source | None,
    canary: Canary | None = None,
) -> list[ShardTask]:
    """One task a shard, in the order of the shards; each writes into `parts`."""
    sampled = next((index for index, entry in enumerate(shards.files) if entry.rows), 0)
    return [
        ShardTask(
            source=layout.stage(USER_SHARDS, day) / entry.name,
            target=parts / atomic.unique_name(entry.name),
            bundle_path=bundle_path,
            settings=dataclasses.replace(settings, mode="full"),  # how a scorer works, which is one for both modes
            fingerprint=fingerprint(
                shard_digest=entry.digest,
                bundle_id=bundle_path.name,
                code=code,
                settings=settings,
                carried_from=None if carried is None else carried.digest,
                canary=None if canary is None else canary.to_json(),
            ),
            keys=entry.keys,
            carry=None if carried is None else carried.carry(index, len(shards.files), looks=index == sampled),
            canary=canary,
        )
        for index, entry in enumerate(shards.files)
    ]


def _unchanged(
    layout: Layout, day: dt.date, tasks: Sequence[ShardTask], made_from: Mapping[str, str]
) -> Manifest | None:
    """The committed manifest, if its files are what would be made now and lie there whole."""
    try:
        done = current(layout, USER_SCORES, day)
    except CorruptError:  # about to be made again, which is its remedy
        return None
    if done is None or done.made_from != made_from or len(done.files) != len(tasks):
        return None
    folder = layout.stage(USER_SCORES, day)
    is_same = all(
        entry.name == task.name
        and is_whole(folder / entry.name, entry)
        and has_fingerprint(folder / entry.name, task.fingerprint)
        for entry, task in zip(done.files, tasks, strict=True)
    )
    return done if is_same else None


def _as_committed(layout: Layout, day: dt.date, done: Manifest, progress: Progress) -> Staged:
    """The committed day as the result of a run that had nothing to do."""
    total = len(done.files)
    for number, entry in enumerate(done.files, start=1):
        progress(ShardDone(name=entry.name, rows=entry.rows, seconds=0.0, is_kept=True, done=number, total=total))
    notes = {**done.notes, "scored": 0, "kept": total}
    return Staged(folder=layout.stage(USER_SCORES, day), manifest=dataclasses.replace(done, notes=notes))


def _keep(layout: Layout, day: dt.date, tasks: Sequence[ShardTask]) -> dict[str, ShardResult]:
    """Leave in the staged folder what need not be scored again, from there or from the committed day, by shard."""
    staged, committed = layout.staging(USER_SCORES, day), layout.stage(USER_SCORES, day)
    _clear(staged, {task.name for task in tasks})
    sealed = _sealed(layout, day)
    kept: dict[str, ShardResult] = {}
    for task in tasks:
        found = kept_shard(task, staged / task.name)
        if found is None and sealed(committed / task.name):
            found = _copied(task, committed / task.name, staged / task.name)
        if found is not None:
            kept[task.name] = found
    return kept


def _require_space(
    layout: Layout, day: dt.date, shards: Manifest, kept: Mapping[str, ShardResult], row_bytes: int
) -> None:
    """Room for the shards that are to be scored: no more than the ids they have themselves, and what is beside each."""
    todo = [entry for entry in shards.files if entry.name not in kept]
    needed = sum(entry.size_bytes + row_bytes * entry.rows for entry in todo)
    require_space(layout, f"{USER_SCORES} of {day}", needed)


def _sealed(layout: Layout, day: dt.date) -> Callable[[Path], bool]:
    """Whether a committed file is the one that the committed manifest describes. Without a manifest that can be
    believed, a file has to prove itself, as one does that is staged.
    """
    try:
        done = current(layout, USER_SCORES, day)
    except CorruptError:
        done = None
    entries = {} if done is None else {entry.name: entry for entry in done.files}
    return lambda path: done is None or (path.name in entries and is_whole(path, entries[path.name]))


def _clear(folder: Path, names: set[str]) -> None:
    """Leave nothing in a folder but files of these names."""
    with atomic.disk_errors("cannot prepare", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in names:
                path.unlink()


def _copied(task: ShardTask, committed: Path, staged: Path) -> ShardResult | None:
    """A committed score file taken over into the staged folder; None if it is not one to keep."""
    if not has_fingerprint(committed, task.fingerprint):
        return None
    with atomic.disk_errors("cannot copy", committed):
        shutil.copyfile(committed, task.target)
    found = kept_shard(task, task.target)
    if found is not None:
        atomic.replace_file(task.target, staged)
    return found
