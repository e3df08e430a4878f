"""Made-up users for load tests: as many as asked for, wide as real ones are, with labels that their columns explain.

Per user 8 numbers (3 % of each missing) and 6 text columns of 3 to 50,000 distinct values, frequent ones first. A
user keeps the text from day to day while the numbers drift. Rows are streamed in batches, so memory stays flat; the
same seed, users and day give the same bytes. Below `root/generated`: `users/day=…/part-0.parquet`, `labels/day=…`.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import PermanentError
from profile_assets.storage import atomic
from profile_assets.storage.parquet import ROW_GROUP_ROWS, ParquetSink
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.users.day_folders import PART_FILE, commit_day, day_folder

NUM_NUMBERS = 8
NULL_RATE = 0.03
CARDINALITIES = (3, 12, 100, 1_000, 10_000, 50_000)
LABEL_COLUMN = "label"

USERS_SCHEMA = pa.schema(
    [
        pa.field(ID_COLUMN, pa.string(), nullable=False),
        *((f"number_{index}", pa.float64()) for index in range(1, NUM_NUMBERS + 1)),
        *((f"category_{index}", pa.string()) for index in range(1, len(CARDINALITIES) + 1)),
    ]
)
LABEL_SCHEMA = pa.schema(
    [pa.field(ID_COLUMN, pa.string(), nullable=False), pa.field(LABEL_COLUMN, pa.int8(), nullable=False)]
)

_DRIFT = np.float32(0.3)
_WEIGHTS = np.array([0.9, -0.7, 0.5, -0.3, 0.2, 0.1, 0.0, 0.0], dtype=np.float32)
_INTERCEPT = -2.2


@dataclass(frozen=True, kw_only=True)
class Generated:
    """The tables that were written, and their days."""

    users: Path
    labels: Path
    days: tuple[dt.date, ...]


def generate(
    root: Path,
    num_users: int,
    days: Sequence[dt.date],
    seed: int = 0,
    progress: Callable[[int], None] = lambda _rows: None,
) -> Generated:
    """Write the users and labels of each day, in place of what stood there; `progress` is told the rows added."""
    if num_users < 0 or seed < 0:
        raise PermanentError(f"{num_users} users from seed {seed}", remedy="give numbers that are not negative")
    home = root / "generated"
    made = Generated(users=home / "users", labels=home / "labels", days=tuple(days))
    vocabularies = [_vocabulary(size) for size in CARDINALITIES]
    with atomic.locked(home / "generate.lock", what="the generated users"):
        for day in made.days:
            batches = _batches(num_users, seed, day, vocabularies)
            _write_day(made, day, batches, staging=home / "_staging", progress=progress)
    return made


_Batch = tuple[pa.RecordBatch, pa.RecordBatch]  # users and their labels


def _write_day(
    made: Generated, day: dt.date, batches: Iterator[_Batch], *, staging: Path, progress: Callable[[int], None]
) -> None:
    """Both tables in one pass; labels are committed first, so that a day with users has them."""
    users, labels = (atomic.empty_folder(day_folder(staging / name, day)) for name in ("users", "labels"))
    with ParquetSink(users / PART_FILE, USERS_SCHEMA) as user_sink:
        with ParquetSink(labels / PART_FILE, LABEL_SCHEMA) as label_sink:
            for user_rows, label_rows in batches:
                user_sink.write(user_rows)
                label_sink.write(label_rows)
                progress(user_rows.num_rows)
    commit_day(made.labels, day, labels)
    commit_day(made.users, day, users)
    with atomic.disk_errors("cannot remove", staging):
        shutil.rmtree(staging)


def _batches(num_users: int, seed: int, day: dt.date, vocabularies: list[pa.Array]) -> Iterator[_Batch]:
    for start in range(0, num_users, ROW_GROUP_ROWS):
        yield _batch(start, min(ROW_GROUP_ROWS, num_users - start), seed, day, vocabularies)


def _batch(start: int, rows: int, seed: int, day: dt.date, vocabularies: list[pa.Array]) -> _Batch:
    """Users `start` to `start + rows`, from streams of random numbers that are this batch's own."""
    lasting = np.random.default_rng([seed, start])
    daily = np.random.default_rng([seed, start, day.toordinal()])
    picks = [_skewed(lasting, len(vocabulary), rows) for vocabulary in vocabularies]
    numbers = lasting.standard_normal((NUM_NUMBERS, rows), dtype=np.float32)
    numbers += _DRIFT * daily.standard_normal((NUM_NUMBERS, rows), dtype=np.float32)
    is_missing = daily.random((NUM_NUMBERS, rows), dtype=np.float32) < NULL_RATE
    labels = daily.random(rows) < _chance(np.where(is_missing, np.float32(0), numbers), picks)
    ids = _user_ids(start, rows)
    columns = [ids, *map(_number_column, numbers, is_missing), *map(pa.Array.take, vocabularies, map(pa.array, picks))]
    return (
        pa.RecordBatch.from_arrays(columns, schema=USERS_SCHEMA),
        pa.RecordBatch.from_arrays([ids, pa.array(labels.astype(np.int8))], schema=LABEL_SCHEMA),
    )


def _chance(numbers: np.ndarray, picks: list[np.ndarray]) -> np.ndarray:
    """The chance of a positive label, shape (rows,): linear terms, one product, and an effect of each category."""
    logit = _INTERCEPT + _WEIGHTS @ numbers + 0.4 * numbers[0] * numbers[1]
    for position, indices in enumerate(picks):
        logit += 0.4 * np.sin(indices * (1.7 + position)).astype(np.float32)
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def _skewed(random: np.random.Generator, size: int, rows: int) -> np.ndarray:
    """Indices below `size`, shape (rows,), of which small ones are frequent: the cube of a uniform number."""
    indices = (size * random.random(rows) ** 3).astype(np.int32)
    return np.minimum(indices, size - 1)


def _number_column(values: np.ndarray, is_missing: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.float64), mask=is_missing)


def _user_ids(start: int, rows: int) -> pa.Array:
    """`u0000000042`, shape (rows,)."""
    digits = pc.utf8_lpad(pa.array(np.arange(start, start + rows)).cast(pa.string()), width=10, padding="0")
    return pc.binary_join_element_wise("u", digits, "")


def _vocabulary(size: int) -> pa.Array:
    """`c00042`: the distinct values of a text column."""
    return pa.array([f"c{index:05d}" for index in range(size)], pa.string())
