"""The shards of a day on their way through an engine, and what is told of them all together afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from profile_assets.errors import AccountingError
from profile_assets.scoring.engines import Engine
from profile_assets.scoring.shard import ShardResult, ShardTask
from profile_assets.storage import atomic


@dataclass(frozen=True, kw_only=True)
class ShardDone:
    """A shard is finished: the `done`-th of `total`. `is_kept` where an earlier run had scored it.

    `halved_to` is the shape of its forwards where memory did not hold the one that was meant; `carried` counts users
    whose score is that of an earlier day.
    """

    name: str
    rows: int
    seconds: float
    is_kept: bool
    done: int
    total: int
    halved_to: int | None = None
    carried: int = 0


Progress = Callable[[ShardDone], None]


def run_tasks(
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
                carried=result.carrying.get("carried", 0),
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


def facts_of(bundle_id: str, code: str, results: Mapping[str, ShardResult]) -> dict[str, Any]:
    """What belongs to the scores of a day beside its rows."""
    by_shard = sorted(results.items())
    return {
        "bundle_id": bundle_id,
        "code_version": code,
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
