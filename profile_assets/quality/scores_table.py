"""What is looked at in a day's scores: that each is a number, how far they moved, and what the network was shown.

The scores are read again from the staged files and, of the day compared with, from what readers see. What the network
was shown was counted while it was shown (`features/bins.py`) and stands in the manifest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.features.bins import Bins, count_values
from profile_assets.features.spec import UNKNOWN_SLOT
from profile_assets.quality.baseline import Baseline
from profile_assets.quality.chance import DAY_DEVIATIONS, SHARD_DEVIATIONS, widened_rate
from profile_assets.quality.counting import pieces_of
from profile_assets.quality.drift import psi
from profile_assets.quality.limits import Limits
from profile_assets.quality.looks import DAY, Look
from profile_assets.quality.measures import Measure
from profile_assets.storage.parquet import iter_batches, open_parquet
from profile_assets.storage.records import Manifest
from profile_assets.storage.routes import CANARY, ROUTE_COLUMN

SCORE_COLUMN = "score"
SCHEMA = pa.schema(
    [
        ("shard", pa.string()),
        ("column", pa.string()),
        ("rows", pa.int64()),
        ("nulls", pa.int64()),
        ("nans", pa.int64()),
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
        ("unknown", pa.int64()),
        ("bins", pa.list_(pa.int64())),
    ]
)
"""`unknown`: values that training never saw; `bins`: rows in each of the bundle's bins (`features/bins.py`)."""
EVEN_EDGES = tuple(number / 20 for number in range(1, 20))
"""Bins of the scores where a bundle brings none: twenty of equal width."""


@dataclass(frozen=True, kw_only=True)
class ScoreCounts:
    """The scores of some files: their measure and their bins by file, and all of them in bins."""

    files: Mapping[str, Measure]
    bins: np.ndarray
    bins_by_file: Mapping[str, np.ndarray] = field(default_factory=dict)
    even: np.ndarray = field(default_factory=lambda: np.zeros(len(EVEN_EDGES) + 1, np.int64))

    @property
    def day(self) -> Measure:
        total = Measure(column=SCORE_COLUMN)
        for one in self.files.values():
            total = total + one
        return total


def count_scores(paths: Iterable[Path], edges: Sequence[float], *, canary: bool | None = None) -> ScoreCounts:
    """Read the scores of the files, and nothing else of them. A file without scores has no measure.

    `canary` True counts those of the canary's users alone, False all others', None everybody's.
    """
    files: dict[str, Measure] = {}
    by_file: dict[str, np.ndarray] = {}
    bins, even = np.zeros(len(edges) + 1, np.int64), np.zeros(len(EVEN_EDGES) + 1, np.int64)
    for path in paths:
        with open_parquet(path) as file:
            if SCORE_COLUMN not in file.schema_arrow.names:
                continue
        files[path.name], by_file[path.name] = Measure(column=SCORE_COLUMN), np.zeros_like(bins)
        for batch in iter_batches(path, columns=[SCORE_COLUMN, *([] if canary is None else [ROUTE_COLUMN])]):
            scores = _of_group(batch, canary)
            (piece,) = pieces_of(scores, None, np.array([0, len(scores)]))
            files[path.name].add(piece)
            plain = scores.to_numpy(zero_copy_only=False)
            by_file[path.name] += count_values(plain, edges)
            even += count_values(plain, EVEN_EDGES)
        bins += by_file[path.name]
    return ScoreCounts(files=files, bins=bins, bins_by_file=by_file, even=even)


def _of_group(batch: pa.RecordBatch, canary: bool | None) -> pa.Array:
    if canary is None:
        return batch.column(0)
    is_canary = pc.equal(batch.column(ROUTE_COLUMN).cast(pa.string()), CANARY)
    return batch.column(0).filter(is_canary if canary else pc.invert(is_canary))


def measures_table(manifest: Manifest, counts: ScoreCounts) -> pa.Table:
    """What was measured while scoring, a row for each shard and feature, and one for its scores; schema `SCHEMA`."""
    unknown: Mapping[str, Mapping[str, int]] = manifest.facts.get("unknown_by_shard") or {}
    histograms: Mapping[str, Mapping[str, list[int]]] = manifest.facts.get("histograms_by_shard") or {}
    rows: list[dict[str, object]] = []
    for entry in manifest.files:
        told, binned = unknown.get(entry.name, {}), histograms.get(entry.name, {})
        rows += [
            {
                "shard": entry.name,
                "column": name,
                "rows": entry.rows,
                "unknown": told.get(name),
                "bins": binned.get(name),
            }
            for name in dict.fromkeys((*binned, *told))
        ]
        if entry.name in counts.files:
            found = {**vars(counts.files[entry.name]), "bins": counts.bins_by_file[entry.name].tolist()}
            rows.append({"shard": entry.name, **{name: found.get(name) for name in SCHEMA.names if name != "shard"}})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def score_looks(counts: ScoreCounts, limits: Limits) -> list[Look]:
    """Missing scores, the least and the greatest, over the day and by file."""
    looks = list(_valid(counts.day, limits, DAY))
    for name, found in counts.files.items():
        if found.rows:
            looks += _valid(found, limits, name)
    return looks


def _valid(found: Measure, limits: Limits, shard: str) -> Iterator[Look]:
    look = functools.partial(Look, check="scores_valid", column=SCORE_COLUMN, shard=shard)
    yield look(measure="null_rate", observed=found.null_rate, limit=0.0)
    yield look(measure="minimum", observed=found.minimum, side="floor", limit=limits.score_minimum)
    yield look(measure="maximum", observed=found.maximum, limit=limits.score_maximum)


def score_drift_look(
    counts: ScoreCounts, before: ScoreCounts | None, baseline: Baseline | None, limits: Limits
) -> Look:
    """How far the scores moved since the last published day."""
    rows, rows_before = counts.day.rows, 0 if before is None else before.day.rows
    since = "" if baseline is None else f" since {baseline.day}"
    absent = "nothing was published in the days before" if baseline is None else _too_few(rows, rows_before, limits)
    return Look(
        check="score_drift",
        column=SCORE_COLUMN,
        measure=f"PSI{since}",
        observed=None if before is None else psi(counts.bins, before.bins),
        limit=limits.max_score_psi,
        absent="" if rows == 0 else absent,
        counts={"bundle_before": "" if baseline is None else baseline.bundle_id},
    )


def unknown_looks(manifest: Manifest, limits: Limits, bins: Bins | None) -> list[Look]:
    """The share of users whose category training never saw, by category; the baseline is training's own share.

    Every category of the bundle is looked at, over the day and by file: one that was not counted is not evaluated.
    """
    unknown: Mapping[str, int] = manifest.facts.get("unknown") or {}
    shards: Mapping[str, Mapping[str, int]] = manifest.facts.get("unknown_by_shard") or {}
    names = _categories(manifest, bins)
    looks = [_unknown(name, unknown.get(name), manifest.rows, limits, bins, DAY) for name in names]
    for entry in manifest.files:
        if entry.rows:
            counts = shards.get(entry.name, {})
            looks += [_unknown(name, counts.get(name), entry.rows, limits, bins, entry.name) for name in names]
    return looks


def _categories(manifest: Manifest, bins: Bins | None) -> list[str]:
    """The bundle's categories: those it has bins of, and those that were counted in any file."""
    if "unknown" not in manifest.facts and bins is None:
        return ["all features"]
    binned = () if bins is None else (name for name, one in bins.features.items() if one.levels is not None)
    by_shard: Mapping[str, Mapping[str, int]] = manifest.facts.get("unknown_by_shard") or {}
    counted = (name for counts in by_shard.values() for name in counts)
    return list(dict.fromkeys((*binned, *(manifest.facts.get("unknown") or {}), *counted)))


def _unknown(name: str, count: int | None, rows: int, limits: Limits, bins: Bins | None, shard: str) -> Look:
    shares = bins.features[name].shares if bins is not None and name in bins.features else None
    deviations = DAY_DEVIATIONS if shard == DAY else SHARD_DEVIATIONS
    return Look(
        check="unknown_categories",
        column=name,
        measure="unknown_rate",
        observed=None if count is None or not rows else count / rows,
        limit=widened_rate(limits.max_unknown_rate, rows, deviations),
        baseline=None if shares is None else shares[UNKNOWN_SLOT],
        shard=shard,
    )


def feature_drift_looks(manifest: Manifest, counts: ScoreCounts, bins: Bins | None, limits: Limits) -> list[Look]:
    """How far each feature, and the score, is from the training rows."""
    if bins is None:
        reason = "the bundle says nothing of its training rows"
        return [_drift("all features", None, limits, reason if manifest.rows else "")]
    histograms: Mapping[str, Sequence[int]] = manifest.facts.get("histograms") or {}
    absent = "" if manifest.rows == 0 else _too_few(manifest.rows, limits.min_drift_rows, limits)
    looks = [
        _drift(name, psi(histograms.get(name, ()), one.shares), limits, absent) for name, one in bins.features.items()
    ]
    return [*looks, _drift(SCORE_COLUMN, psi(counts.bins, bins.score.shares), limits, absent)]


def _drift(name: str, observed: float | None, limits: Limits, absent: str) -> Look:
    return Look(
        check="feature_drift",
        column=name,
        measure="PSI against training",
        observed=observed,
        limit=limits.max_feature_psi,
        absent=absent,
        severity="warn" if limits.on_feature_drift == "warn" else "error",
    )


def _too_few(rows: int, rows_before: int, limits: Limits) -> str:
    """Why two histograms of so many rows are not compared; empty where they are."""
    least = min(rows, rows_before)
    if least >= limits.min_drift_rows:
        return ""
    return f"{least} rows are too few to tell drift from chance ({limits.min_drift_rows} are asked for)"
