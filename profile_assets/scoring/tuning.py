"""Which shape a GPU's forwards have: doubled while that pays and memory holds it, once for a bundle and kind of device.

What was found is written down and read from then on, since the shape is part of what makes a score: two runs of a
bundle on one kind of device use one shape. On a processor nothing is looked for: 4096 rows fit its caches.
"""

from __future__ import annotations

import dataclasses
import hashlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from profile_assets.errors import CorruptError
from profile_assets.features.encode import Encoded
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle import Bundle, load_bundle
from profile_assets.scoring.devices import device_kind, resolve, share_memory
from profile_assets.scoring.scorer import Scorer
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

MIN_GAIN = 1.1  # a doubling that brings less is past the knee
LARGEST = 4_194_304
MEMORY_SHARE = 0.8  # of the device; the rest is for two batches that meet, and for what else runs there
_BATCHES, _REPEATS = 8, 3

FindRows = Callable[[Path, ScoringSettings], int]


def settled(
    layout: Layout, bundle_path: Path, settings: ScoringSettings, *, find: FindRows | None = None
) -> ScoringSettings:
    """The settings with the shape that is to be used; `find` looks for one where none is known (default: `find_rows`).

    Settings that ask for a shape, or score on a processor, come back with theirs.
    """
    fixed = dataclasses.replace(settings, finds_batch=False)
    if not settings.finds_batch or (find is None and resolve(settings.device) == "cpu"):
        return fixed
    path = _record_path(layout, bundle_path.name, device_kind(settings.device))
    rows = _known(path, largest(settings))
    if rows is None:
        rows = (find or find_rows)(bundle_path, fixed)
        record = {"format": FORMAT, "bundle": bundle_path.name, "device": device_kind(settings.device)}
        found = {"batch_rows": rows, "largest": largest(settings)}
        atomic.write_json(path, {**record, **found}, staging=layout.scratch("records"))
    return dataclasses.replace(fixed, batch_rows=min(rows, largest(settings)))


def largest(settings: ScoringSettings) -> int:
    """The largest shape that is looked for, or used where more was found when more was allowed."""
    return settings.max_batch_rows or LARGEST


def _record_path(layout: Layout, bundle_id: str, kind: str) -> Path:
    """Devices have names with blanks and slashes, so a file is named for their digest; the name itself is in it."""
    return layout.home / "tuning" / f"{bundle_id}.{hashlib.sha256(kind.encode()).hexdigest()[:12]}.json"


def _known(path: Path, wanted: int) -> int | None:
    """What was found; None where nothing was, or not up to the shape that is wanted now."""
    if not path.exists():
        return None
    try:
        record = read_json(path)
        rows, looked_up_to = record["batch_rows"], record.get("largest", LARGEST)
    except (CorruptError, KeyError):  # it is only a measurement: made again
        return None
    return rows if isinstance(rows, int) and (looked_up_to >= wanted or rows < looked_up_to // 2) else None


def find_rows(bundle_path: Path, settings: ScoringSettings) -> int:
    """Measure on the device at hand, from the shape of the settings upwards."""
    device = resolve(settings.device)
    share_memory(device, settings.memory_fraction)
    bundle = load_bundle(bundle_path, device)
    first = min(settings.batch_rows, largest(settings))
    return knee(lambda rows: _seconds(bundle, settings, rows), first=first, most=largest(settings))


def knee(seconds_of: Callable[[int], float], *, first: int, most: int = LARGEST) -> int:
    """The last doubling of `first` that still brought MIN_GAIN in rows a second.

    `seconds_of` gives the seconds for one batch of so many rows; torch.OutOfMemoryError is where memory ends. Where
    that is before `first`, it is `first` all the same: a scorer halves what does not fit.
    """
    best, best_rate, rows = first, 0.0, first
    while rows <= most:
        try:
            rate = rows / seconds_of(rows)
        except torch.OutOfMemoryError:
            break
        if rate < MIN_GAIN * best_rate:
            break
        best, best_rate, rows = rows, rate, 2 * rows
    return best


def _seconds(bundle: Bundle, settings: ScoringSettings, rows: int) -> float:
    """Median seconds a batch, copies to the device and back included."""
    scorer = Scorer(bundle, dataclasses.replace(settings, batch_rows=rows))
    if scorer.batch_rows < rows or not _has_room(scorer.device):
        raise torch.OutOfMemoryError(f"{rows} rows")
    users = _random_users(bundle.spec, _BATCHES * rows)
    scorer.score(users)
    return statistics.median(_timed(lambda: scorer.score(users)) for _ in range(_REPEATS)) / _BATCHES


def _has_room(device: str) -> bool:
    if device == "cpu":
        return True
    free, total = torch.cuda.mem_get_info()
    return free >= (1 - MEMORY_SHARE) * total


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _random_users(spec: FeatureSpec, rows: int) -> Encoded:
    """Slots drawn evenly: no lookup is kinder to the caches than those of real users."""
    draw = np.random.default_rng(0)
    categories = [draw.integers(0, one.slots, rows, dtype=np.int32) for one in spec.categorical]
    return Encoded(
        numeric=draw.standard_normal((2 * len(spec.numeric), rows), dtype=np.float32),
        categories=np.array(categories, np.int32).reshape(len(categories), rows),
        unknown={},
    )
