"""What is looked at in the columns of the landed users: missing values, bounds, repeated ids.

Missing is null, NaN or blank, over all rows. A column that the file lacks, and a file without rows, give looks that
observed nothing, which no check passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from profile_assets.quality.baseline import Baseline
from profile_assets.quality.looks import Look
from profile_assets.quality.measures import ColumnMeasure
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.users.contract import Column, Contract, is_number

Measures = Mapping[str, ColumnMeasure]


def null_rate_looks(measures: Measures, contract: Contract, max_change: float, baseline: Baseline | None) -> list[Look]:
    """The share of missing values of every column, and how far it moved since the baseline; the id may not miss one."""
    limits = {ID_COLUMN: 0.0, **{column.name: column.max_null_rate for column in contract.columns}}
    looks = []
    for name, limit in limits.items():
        found = measures.get(name, ColumnMeasure(column=name))
        before = None if baseline is None else baseline.null_rates.get(name)
        counts = {"nulls": found.nulls, "nans": found.nans, "blanks": found.blanks}
        looks += [
            Look(
                check="null_rates",
                column=name,
                measure="null_rate",
                observed=found.null_rate,
                limit=limit,
                baseline=before,
                counts=counts,
            ),
            Look(
                check="null_rates",
                column=name,
                measure="null_rate_change",
                observed=math.nan if before is None else abs(found.null_rate - before),
                limit=max_change,
                baseline=before,
                is_new=before is None,
                counts=counts,
            ),
        ]
    return looks


def range_looks(measures: Measures, columns: Sequence[Column]) -> list[Look]:
    """The least and the greatest value of every column of numbers that holds any; finite even where no bound is set."""
    numbers = [column for column in columns if is_number(column.type)]
    return [look for column in numbers for look in _bounds(measures.get(column.name), column)]


def _bounds(found: ColumnMeasure | None, column: Column) -> list[Look]:
    if found is not None and found.rows and found.minimum is None:
        return []  # nothing but missing values, which is for the null rate to judge
    low, high = (None, None) if found is None else (found.minimum, found.maximum)
    return [
        Look(check="ranges", column=column.name, measure="minimum", observed=low, side="floor", limit=column.minimum),
        Look(check="ranges", column=column.name, measure="maximum", observed=high, limit=column.maximum),
    ]


def repeated_ids_look(rows: int, repeats: int) -> Look:
    """How many rows say an id again; nothing is observed where there are no rows."""
    return Look(
        check="unique_ids",
        column=ID_COLUMN,
        measure="repeated_ids",
        observed=float(repeats) if rows else None,
        limit=0.0,
    )
