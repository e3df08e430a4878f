"""What is looked at in the columns of a day's users, over the measures of its shards.

Missing is null, NaN or blank, over all rows. A column that a shard lacks, and a day without rows, give looks that
observed nothing, which no check passes; a shard without rows gives none. Limits are widened by what chance does to few
rows, unless they are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profile_assets.quality.baseline import Baseline
from profile_assets.quality.chance import SHARD_DEVIATIONS, widened_change, widened_rate, widened_skew
from profile_assets.quality.looks import DAY, Look
from profile_assets.quality.measures import DayMeasures, Measure
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.users.contract import Column, Contract, is_number


def null_rate_looks(measures: DayMeasures, contract: Contract) -> list[Look]:
    """The share of missing values of every column, in the day and in each shard; the id may not miss one."""
    limits = {ID_COLUMN: 0.0, **{column.name: column.max_null_rate for column in contract.columns}}
    looks = [_null_rate(measures.of(name), limit) for name, limit in limits.items()]
    for shard, columns in measures.shards.items():
        for name, limit in limits.items():
            looks.append(_null_rate(columns.get(name, Measure(column=name)), limit, shard=shard))
    return looks


def _null_rate(found: Measure, limit: float, *, shard: str = DAY) -> Look:
    return Look(
        check="null_rates",
        column=found.column,
        measure="null_rate",
        observed=found.null_rate,
        limit=limit if shard == DAY else widened_rate(limit, found.rows, SHARD_DEVIATIONS),
        shard=shard,
        counts={"nulls": found.nulls, "nans": found.nans, "blanks": found.blanks},
    )


def null_rate_change_looks(
    check: str, measures: DayMeasures, contract: Contract, max_change: float, baseline: Baseline | None, absent: str
) -> list[Look]:
    """How far the share of missing values of every column moved since the baseline; `absent` says why there is none."""
    looks = []
    for name in contract.schema.names:
        found = measures.of(name)
        before = None if baseline is None else baseline.null_rates.get(name)
        rows = 0 if baseline is None else baseline.rows
        observed = None if before is None else abs(found.null_rate - before)
        limit = max_change if before is None else _change_limit(max_change, found, before, rows)
        looks.append(
            Look(
                check=check,
                column=name,
                measure=f"change of the null rate{'' if baseline is None else f' since {baseline.day}'}",
                observed=observed,
                limit=limit,
                baseline=before,
                absent=_why_absent(baseline, before, found, absent),
            )
        )
    return looks


def _change_limit(max_change: float, found: Measure, before: float, rows: int) -> float:
    return widened_change(max_change, (found.null_rate, before), (found.rows, rows))


def _why_absent(baseline: Baseline | None, before: float | None, found: Measure, absent: str) -> str:
    if not found.rows:
        return ""  # nothing was seen of the day itself: no baseline would help
    if baseline is None:
        return absent
    return "" if before is not None else f"{baseline.day} did not have {found.column}"


def range_looks(measures: DayMeasures, contract: Contract) -> list[Look]:
    """The values of every column beyond its bounds, by shard; and the day's extremes, finite where no bound is set."""
    bounded = [column for column in contract.columns if is_number(column.type) or column.values is not None]
    looks = [look for column in bounded for look in _day_ranges(measures.day.get(column.name), column)]
    for shard, columns in measures.shards.items():
        looks += [_out_of_range(columns[one.name], shard=shard) for one in bounded if one.name in columns]
    return looks


def _day_ranges(found: Measure | None, column: Column) -> Iterator[Look]:
    yield _out_of_range(Measure(column=column.name) if found is None else found, is_known=found is not None)
    if not is_number(column.type) or (found is not None and found.rows and found.minimum is None):
        return  # nothing but missing values, which is for the null rate to judge
    low, high = (None, None) if found is None else (found.minimum, found.maximum)
    yield Look(check="ranges", column=column.name, measure="minimum", observed=low, side="floor", limit=column.minimum)
    yield Look(check="ranges", column=column.name, measure="maximum", observed=high, limit=column.maximum)


def _out_of_range(found: Measure, *, shard: str = DAY, is_known: bool = True) -> Look:
    return Look(
        check="ranges",
        column=found.column,
        measure="values out of range",
        observed=float(found.out_of_range) if is_known and found.rows else None,
        limit=0.0,
        shard=shard,
    )


def repeated_id_looks(measures: DayMeasures) -> list[Look]:
    """How many rows say an id again, in the day and by shard; nothing is observed where there are no rows."""
    looks = [_repeated(measures.of(ID_COLUMN))]
    for shard, columns in measures.shards.items():
        if ID_COLUMN in columns:
            looks.append(_repeated(columns[ID_COLUMN], shard=shard))
    return looks


def _repeated(found: Measure, *, shard: str = DAY) -> Look:
    is_known = found.rows > 0 and found.distinct is not None
    return Look(
        check="unique_ids",
        column=ID_COLUMN,
        measure="repeated ids",
        observed=float(found.rows - (found.distinct or 0)) if is_known else None,
        limit=0.0,
        shard=shard,
    )


def skew_look(manifest: Manifest, limit: float) -> Look:
    """The largest shard over the mean, the heaviest named as the column."""
    parts: Sequence[tuple[int, str]] = [(entry.rows, entry.name) for entry in manifest.files]
    rows, heaviest = max(parts, default=(0, "no shard"))
    mean = manifest.rows / len(parts) if parts else 0.0
    return Look(
        check="shard_skew",
        column=heaviest,
        measure="rows over the mean",
        observed=rows / mean if mean else None,
        limit=widened_skew(limit, manifest.rows, len(parts)),
        counts={"rows": rows, "mean_rows": mean},
    )
