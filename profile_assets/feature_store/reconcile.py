"""What readers see of a day, held against the same day scored in full: who is too many, who is missing, who differs.

Both are read from the disk in step, and users who do not stand in the same place on both sides are set aside and then
told apart by id. Nothing is replaced here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError
from profile_assets.storage.layout import RECONCILE, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.parts import part_of
from profile_assets.storage.records import FORMAT, Manifest
from profile_assets.storage.routes import ROUTE_COLUMN
from profile_assets.storage.stages import ID_COLUMN

TOLERANCE = 1e-6
"""By so much one row's scores may differ across kinds of processor; on one kind they are the same bits."""
MAX_EXAMPLES = 5
DECADES = tuple(range(-9, 1))
"""Differences are counted below 1e-9, from there to 1e-8, and so on up to 1."""
_FULL_SCORE = "full_score"


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """`added` users have a score in full and are not published, `removed` ones are published and have none, `changed`
    ones differ by more than the tolerance; of these, `changed_carried` were carried. `decades` counts the users of
    both sides by the size of their difference, the same bits first, then as DECADES has it. `examples` are a few users
    of each kind.
    """

    day: dt.date
    bundle_id: str
    published: int
    full: int
    added: int
    removed: int
    changed: int
    changed_carried: int
    largest: float
    decades: tuple[int, ...]
    examples: tuple[dict[str, Any], ...]

    @property
    def is_equal(self) -> bool:
        return not (self.added or self.removed or self.changed)

    def __str__(self) -> str:
        return (
            f"of {self.published:,} published users of {self.day}, beside {self.full:,} scored in full: "
            f"{self.added:,} added, {self.removed:,} removed, {self.changed:,} changed by more than {TOLERANCE:g} "
            f"({self.changed_carried:,} of them carried); the largest difference is {self.largest:.3g}"
        )

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self), "day": self.day.isoformat(), "tolerance": TOLERANCE}


def compare(layout: Layout, day: dt.date, full: Manifest) -> Reconciliation:
    """Hold the published file of the day against its scores in full. DataError where it is not published."""
    part = part_of(layout, day)
    if part is None:
        raise DataError(f"{day} is not published", remedy="name a published day: profile-assets show")
    folder = layout.stage(RECONCILE, day)
    tally = _Tally()
    published = _batches([part], [ID_COLUMN, "score", ROUTE_COLUMN])
    scored = _batches([folder / entry.name for entry in full.files], [ID_COLUMN, "score"])
    for left, right in _in_step(published, scored):
        tally.add(left, right)
    tally.settle()
    return tally.result(day, full.facts["bundle_id"])


def _batches(paths: Iterable[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    for path in paths:
        for batch in iter_batches(path, columns=columns):
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                yield table.set_column(0, ID_COLUMN, table.column(0).cast(pa.string()))


def _in_step(left: Iterator[pa.Table], right: Iterator[pa.Table]) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    """Two streams, each cut where the other one is; what one has beyond the end of the other comes alone."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        rows = min(one.num_rows, other.num_rows)
        yield one.slice(0, rows), other.slice(0, rows)
        one = one.slice(rows) if rows < one.num_rows else next(left, None)
        other = other.slice(rows) if rows < other.num_rows else next(right, None)
    while one is not None or other is not None:
        yield one, other
        one, other = next(left, None), next(right, None)


class _Tally:
    """What was found so far, and the users who did not stand where the other side has them."""

    def __init__(self) -> None:
        self._rows, self._counts = Counter[str](), Counter[str]()
        self._decades = np.zeros(len(DECADES) + 2, np.int64)
        self._largest = 0.0
        self._examples: list[dict[str, Any]] = []
        self._left: list[pa.Table] = []
        self._right: list[pa.Table] = []

    def add(self, left: pa.Table | None, right: pa.Table | None) -> None:
        """Some published rows and as many in full; or those of one side alone."""
        self._rows["published"] += 0 if left is None else left.num_rows
        self._rows["full"] += 0 if right is None else right.num_rows
        if left is not None and right is not None and left.column(ID_COLUMN).equals(right.column(ID_COLUMN)):
            self._compare(left.append_column(_FULL_SCORE, right.column("score")))
        else:
            self._left += [] if left is None else [left]
            self._right += [] if right is None else [right]

    def settle(self) -> None:
        """Tell by id those apart who were set aside; a user who stands twice on one side is one too many there."""
        if not self._left or not self._right:
            self._note("removed", self._left)
            self._note("added", self._right)
            return
        left, right = pa.concat_tables(self._left), pa.concat_tables(self._right)
        places = pc.index_in(left.column(ID_COLUMN), value_set=right.column(ID_COLUMN)).fill_null(-1).to_numpy()
        found, rows = np.unique(places, return_index=True)
        rows, found = rows[found >= 0], found[found >= 0]
        scores = right.column("score").take(pa.array(found))
        self._compare(left.take(pa.array(rows)).append_column(_FULL_SCORE, scores))
        self._note("removed", [left.filter(_all_but(rows, left.num_rows))])
        self._note("added", [right.filter(_all_but(found, right.num_rows))])

    def _compare(self, both: pa.Table) -> None:
        published, full = (both.column(name).to_numpy().astype(np.float64) for name in ("score", _FULL_SCORE))
        apart = np.abs(published - full)
        self._decades += _by_decade(apart)
        self._largest = max(self._largest, float(np.nanmax(apart, initial=0.0)))
        is_changed = ~(apart <= TOLERANCE)  # true for NaN
        changed = both.filter(pa.array(is_changed))
        self._note("changed", [changed])
        self._counts["changed_carried"] += pc.sum(pc.equal(changed.column(ROUTE_COLUMN), "carried")).as_py() or 0

    def _note(self, kind: str, tables: Sequence[pa.Table]) -> None:
        for table in tables:
            wanted = MAX_EXAMPLES - min(MAX_EXAMPLES, self._counts[kind])
            self._counts[kind] += table.num_rows
            self._examples += [_example(kind, row) for row in table.slice(0, wanted).to_pylist()]

    def result(self, day: dt.date, bundle_id: str) -> Reconciliation:
        counts = {name: self._counts[name] for name in ("added", "removed", "changed", "changed_carried")}
        return Reconciliation(
            day=day,
            bundle_id=bundle_id,
            published=self._rows["published"],
            full=self._rows["full"],
            largest=self._largest,
            decades=tuple(int(count) for count in self._decades),
            examples=tuple(self._examples),
            **counts,
        )


def _by_decade(apart: np.ndarray) -> np.ndarray:
    """How many are 0, below the first decade, and so on; NaN, which is no small difference, among the largest."""
    edges = [np.nextafter(0, 1), *(10.0**decade for decade in DECADES)]
    places = np.searchsorted(edges, np.nan_to_num(apart, nan=1.0), side="right")
    return np.bincount(places, minlength=len(DECADES) + 2)[: len(DECADES) + 2]


def _all_but(rows: np.ndarray, count: int) -> pa.Array:
    wanted = np.ones(count, bool)
    wanted[rows] = False
    return pa.array(wanted)


def _example(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    in_full = row["score"] if kind == "added" else row.get(_FULL_SCORE)
    return {
        "kind": kind,
        "user_id": row[ID_COLUMN],
        "published": None if kind == "added" else _told(row["score"]),
        "in_full": _told(in_full),
        "route": row.get(ROUTE_COLUMN),
    }


def _told(score: float | None) -> float | str | None:
    """JSON has no word for a number that is none."""
    return score if score is None or math.isfinite(score) else str(score)
