"""The engine without processes: shards one after another, here. A shard is looked at while the next one is scored."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from profile_assets.scoring.pipeline import ahead
from profile_assets.scoring.shard import ShardResult, ShardTask, read_shard, write_shard


def score_here(tasks: Sequence[ShardTask]) -> Generator[ShardResult, None, None]:
    """Score the shards in their order in this process."""
    for task, seconds in ahead(_written(tasks), depth=1):
        yield read_shard(task, task.target, seconds=seconds)


def _written(tasks: Sequence[ShardTask]) -> Generator[tuple[ShardTask, float], None, None]:
    for task in tasks:
        yield task, write_shard(task)
