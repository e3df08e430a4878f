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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profile_assets.errors import AccountingError, CorruptError
from profile_assets.scoring.engines import Engine
from profile_assets.scoring.engines.local import score_on_this_machine
from profile_assets.scoring.fingerprint import code_version, fingerprint
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardResult, ShardTask, has_fingerprint, kept_shard
from profile_assets.scoring.tuning import settled
from profile_assets.storage import atomic
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.records import Manifest
from profile_assets.storage.space import require_space
from profile_assets.storage.stages import Staged, current, is_whole, require, seal

PARTS = f"{USER_SCORES}_parts"
SCORE_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class ShardDone:
    """A shard is finished: the `done`-th of `total`. `is_kept` where an earlier run had scored it.

    `halved_to` is the shape of its forwards where memory did not hold the one that was meant.
    """

    name: str
    rows: int
    seconds: float
    is_kept: bool
    done: int
    total: int
    halved_to: int | None = None


Progress = Callable[[ShardDone], None]


def score_day(
    layout: Layout,
    day: dt.date,
    bundle_path: Path,
    settings: ScoringSettings,
    *,
    progress: Progress = lambda _: None,
    engine: Engine = score_on_this_machine,
) -> Staged:
    """Score the day's committed shards into a sealed staged folder; the caller holds the day's lock.

    Committed scores that would come out the same, and are whole, are handed back as they are.
    """
    began = time.perf_counter()
    settings = settled(layout, bundle_path, settings)
    shards = require(layout, USER_SHARDS, day)
    made_from = {USER_SHARDS: shards.digest, "bundle": bundle_path.name, "code": code_version()}
    with _parts(layout, day) as parts:
        tasks = _tasks(layout, day, shards, bundle_path, settings, parts)
        done = _unchanged(layout, day, tasks, made_from)
        if done is not None:
            return _as_committed(layout, day, done, progress)
        kept = _keep(layout, day, tasks)
        _require_space(layout, day, shards, kept)
        results = _score(layout.staging(USER_SCORES, day), tasks, kept, engine, progress)
    manifest = Manifest(
        stage=USER_SCORES,
        day=day.isoformat(),
        files=tuple(results[task.name].entry for task in tasks),
        made_from=made_from,
        facts=_facts(bundle_path.name, results),
        notes={
            "scored": len(tasks) - len(kept),
            "kept": len(kept),
            "batch_rows": sorted({result.batch_rows for result in results.values()}),
            "seconds": round(time.perf_counter() - began, 3),
        },
    )
    return seal(layout, day, manifest)


@contextlib.contextmanager
def _parts(layout: Layout, day: dt.date) -> Iterator[Path]:
    """A folder for files in the making. What a killed run left there goes first, what this one leaves goes last."""
    folder = atomic.empty_folder(layout.staging(PARTS, day))
    try:
        yield folder
    finally:
        with atomic.disk_errors("cannot remove", folder):
            shutil.rmtree(folder)


def _tasks(
    layout: Layout, day: dt.date, shards: Manifest, bundle_path: Path, settings: ScoringSettings, parts: Path
) -> list[ShardTask]:
    """One task a shard, in the order of the shards."""
    return [
        ShardTask(
            source=layout.stage(USER_SHARDS, day) / entry.name,
            target=parts / atomic.unique_name(entry.name),
            bundle_path=bundle_path,
            settings=settings,
            fingerprint=fingerprint(
                shard_digest=entry.digest, bundle_id=bundle_path.name, code=code_version(), settings=settings
            ),
            keys=entry.keys,
        )
        for entry in shards.files
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


def _require_space(layout: Layout, day: dt.date, shards: Manifest, kept: Mapping[str, ShardResult]) -> None:
    """Room for the shards that are to be scored: no more than the ids they have themselves, and a score beside each."""
    todo = [entry for entry in shards.files if entry.name not in kept]
    needed = sum(entry.size_bytes + SCORE_BYTES * entry.rows for entry in todo)
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


def _score(
    staged: Path, tasks: Sequence[ShardTask], kept: Mapping[str, ShardResult], engine: Engine, progress: Progress
) -> dict[str, ShardResult]:
    """Every shard's result by its name: those kept, and the others as the engine finishes them."""
    results: dict[str, ShardResult] = {}
    batch_rows = max((task.settings.batch_rows for task in tasks), default=0)

    def finish(result: ShardResult, *, is_kept: bool) -> None:
        results[result.name] = result
        progress(
            ShardDone(
                name=result.name,
                rows=result.entry.rows,
                seconds=result.entry.seconds,
                is_kept=is_kept,
                done=len(results),
                total=len(tasks),
                halved_to=result.batch_rows if result.batch_rows < batch_rows else None,
            )
        )

    for result in kept.values():
        finish(result, is_kept=True)
    todo = {task.name: task for task in tasks if task.name not in kept}
    with contextlib.closing(engine(list(todo.values()))) as finished:
        for result in finished:
            atomic.replace_file(todo[result.name].target, staged / result.name)
            finish(result, is_kept=False)
    if missing := [task.name for task in tasks if task.name not in results]:
        raise AccountingError(
            f"no scores came back for {', '.join(missing)}", remedy="run user_scores of that day again"
        )
    return results


def _facts(bundle_id: str, results: Mapping[str, ShardResult]) -> dict[str, object]:
    by_shard = sorted(results.items())
    return {
        "bundle_id": bundle_id,
        "code_version": code_version(),
        "num_shards": len(results),
        "unknown": {name: int(sum(counts)) for name, counts in _by_category(by_shard).items()},
        "unknown_by_shard": {name: dict(result.unknown) for name, result in by_shard},
        "histograms_by_shard": {name: dict(result.histograms) for name, result in by_shard},
        "histograms": _total_histograms([result.histograms for _, result in by_shard]),
    }


def _by_category(by_shard: Sequence[tuple[str, ShardResult]]) -> dict[str, list[int]]:
    names = dict.fromkeys(name for _, result in by_shard for name in result.unknown)
    return {name: [result.unknown[name] for _, result in by_shard] for name in names}


def _total_histograms(parts: Sequence[Mapping[str, list[int]]]) -> dict[str, list[int]]:
    """The counts of all shards together, by feature."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.sum([part[name] for part in parts if name in part], axis=0).tolist() for name in names}
