"""One shard file scored: the piece of work that every engine maps over.

A task names its files by path and needs nothing else, so it can run in any process that sees the same disk. It writes
to a name that no other run uses; whoever handed it out renames the file. What lies there is always read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import AccountingError, ContractError, CorruptError, DataError, ScoringError
from profile_assets.scoring.canary import CANARY, CANARY_SCHEMA, Canary, bundles_of, score_file_in_two
from profile_assets.scoring.carrying import CARRYING, Carry
from profile_assets.scoring.fingerprint import FINGERPRINT
from profile_assets.scoring.scorer import (
    BATCH_ROWS,
    CARRIED_SCHEMA,
    HISTOGRAMS,
    ROWS_DIGEST,
    SCORE_SCHEMA,
    UNKNOWN,
    scorer_for,
)
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.keys import KeySet
from profile_assets.storage.parquet import corrupt_errors, iter_batches, read_footer
from profile_assets.storage.records import FileEntry
from profile_assets.storage.stages import describe, ids_on_disk
from profile_assets.storage.written import ScoreOrder, Written

_AGAIN = "run user_scores of that day again; if it happens twice, check the machine's disk and memory"


@dataclass(frozen=True, kw_only=True)
class ShardTask:
    """Score the file `source` of a shard into `target`; exactly the users of `keys` must come out.

    `carry` says what may be carried on a day that is scored incrementally; `canary`, which users another bundle
    scores. There is never both.
    """

    source: Path
    target: Path
    bundle_path: Path
    settings: ScoringSettings
    fingerprint: str
    keys: KeySet
    carry: Carry | None = None
    canary: Canary | None = None

    @property
    def name(self) -> str:
        """The shard, as its file is called."""
        return self.source.name


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """A scored shard as it lies on the disk. `unknown` counts, by category, values that training never saw;
    `histograms`, by feature, rows in each of the bundle's bins; `carrying`, how many users were carried, scored, new;
    `canary`, how many users were the canary's, and the same counts of these, which are in none of the others.
    """

    name: str
    entry: FileEntry
    unknown: Mapping[str, int]
    histograms: Mapping[str, list[int]]
    batch_rows: int
    carrying: Mapping[str, Any] = field(default_factory=dict)
    canary: Mapping[str, Any] = field(default_factory=dict)


def write_shard(task: ShardTask) -> float:
    """Score the shard into the task's target; gives the seconds it took."""
    began = time.perf_counter()
    scorer = scorer_for(task.bundle_path, task.settings)
    footer = {FINGERPRINT: task.fingerprint}
    with _named(task):
        if task.canary is None:
            scorer.score_file(task.source, task.target, footer, task.carry)
        else:
            other = scorer_for(task.canary.bundle_path, task.settings)
            score_file_in_two(scorer, other, task.canary, task.source, task.target, footer)
    return time.perf_counter() - began


@contextlib.contextmanager
def _named(task: ShardTask) -> Iterator[None]:
    """Errors about rows say in which shard these are."""
    try:
        yield
    except (ContractError, DataError, ScoringError) as error:
        raise type(error)(f"{task.name}: {error.what}", remedy=error.remedy) from error


def read_shard(task: ShardTask, path: Path, *, seconds: float = 0.0) -> ShardResult:
    """What lies at `path` as the scores of a task. AccountingError unless it holds exactly the users of the shard,
    CorruptError unless each has the score that was handed to the file, by the digest in its footer.

    The shard's own ids are read again beside the scores': where they are the same, so is their key set.
    """
    footer, found = read_footer(path), _rows_on_disk(task, path)
    if footer.get(ROWS_DIGEST) != found.digest:
        raise CorruptError(f"{path} does not hold the scores that were written to it", remedy=_AGAIN)
    entry = describe(path, seconds=seconds, written=Written(ids_on_disk(task.source), task.keys), found=found.ids)
    if entry.keys != task.keys:
        raise AccountingError(
            f"{task.name} holds {task.keys.count} users, its scores {entry.rows}, or other users",
            remedy=_AGAIN,
        )
    with corrupt_errors(path):
        return ShardResult(
            name=task.name,
            entry=dataclasses.replace(entry, name=task.name),
            unknown=json.loads(footer[UNKNOWN]),
            histograms=json.loads(footer[HISTOGRAMS]),
            batch_rows=int(footer[BATCH_ROWS]),
            carrying=json.loads(footer.get(CARRYING, "{}")),
            canary=json.loads(footer.get(CANARY, "{}")),
        )


def _rows_on_disk(task: ShardTask, path: Path) -> ScoreOrder:
    """Every row of a score file: ids and scores. CorruptError where one has not its bundle beside it."""
    order, names = ScoreOrder(), _schema_of(task).names
    for batch in iter_batches(path):
        if batch.schema.names != names or not _has_its_bundles(task, batch):
            raise CorruptError(f"{path} does not hold scores of {task.bundle_path.name} alone", remedy=_AGAIN)
        order.add(batch.column(0), batch.column(1))
    return order


def _schema_of(task: ShardTask) -> pa.Schema:
    if task.canary is not None:
        return CANARY_SCHEMA
    return SCORE_SCHEMA if task.carry is None else CARRIED_SCHEMA


def _has_its_bundles(task: ShardTask, batch: pa.RecordBatch) -> bool:
    """Whether each row has the bundle beside it that was to score its user."""
    if task.canary is None:
        return bool(pc.unique(batch.column(2)).to_pylist() == [task.bundle_path.name])
    wanted = bundles_of(task.canary, task.bundle_path.name, batch.column(0))
    return bool(batch.column(2).cast(pa.string()).equals(wanted))


def score_shard(task: ShardTask) -> ShardResult:
    """Score one shard and look at what was written."""
    return read_shard(task, task.target, seconds=write_shard(task))


def kept_shard(task: ShardTask, path: Path) -> ShardResult | None:
    """The scores of an earlier run at `path`; None unless they were made of the same, and are what was written then."""
    if not has_fingerprint(path, task.fingerprint):
        return None
    try:
        return read_shard(task, path)
    except (CorruptError, AccountingError):  # about to be made again, which is its remedy
        return None


def has_fingerprint(path: Path, fingerprint: str) -> bool:
    """Whether there is a score file with that fingerprint in a readable footer."""
    try:
        return path.exists() and read_footer(path).get(FINGERPRINT) == fingerprint
    except CorruptError:
        return False
