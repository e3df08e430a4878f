"""Engines: each maps the scoring of one shard over a day's shards, and does nothing else.

An engine takes shard tasks and gives their results in any order, each naming its shard. An error ends it, and no
process of its own outlives it. What is scored, kept, checked and committed is the day's business, the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from profile_assets.scoring.shard import ShardResult, ShardTask

Engine: TypeAlias = Callable[[Sequence[ShardTask]], Generator[ShardResult, None, None]]
