"""The canary's users of a published day beside the others: how many, how they were scored, and how well.

Who is in the share is chance, so both groups are alike but for the bundle: what differs between them by more than
chance comes from it. Where the day's labels are known, each group is held against its own.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError
from profile_assets.models.metrics import auc, log_losses
from profile_assets.quality.drift import psi
from profile_assets.quality.limits import Limits
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.parts import part_of
from profile_assets.storage.published import PublishRecord, published_days, read_part_record
from profile_assets.storage.routes import CANARY, ROUTE_COLUMN
from profile_assets.storage.stages import ID_COLUMN

BINS = 20
DEVIATIONS = 4.0
"""By so many standard deviations a number of users, or a mean loss, may differ by chance."""
_LOGIT_BOUND = 1e-7


@dataclass(frozen=True, kw_only=True)
class Side:
    """The users of one bundle. The last four are None where no labels are known; `loss_error` is a standard error."""

    bundle_id: str
    rows: int
    mean: float
    counts: tuple[int, ...]
    labelled: int = 0
    rate: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    loss_error: float | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both groups of a day, and what speaks against the canary."""

    day: dt.date
    share: float
    stable: Side
    canary: Side
    problems: tuple[str, ...]

    @property
    def psi(self) -> float:
        return psi(self.canary.counts, self.stable.counts)


def days_with(layout: Layout, bundle_id: str) -> Iterator[PublishRecord]:
    """The published days of which that canary scored a share, newest first."""
    for day in reversed(published_days(layout)):
        record = read_part_record(layout, day)
        if record is not None and record.canary is not None and record.canary["bundle_id"] == bundle_id:
            yield record


def compare_groups(
    layout: Layout, record: PublishRecord, limits: Limits, *, labels: pa.Table | None, max_loss_rise: float
) -> Comparison:
    """Read what readers see of the day. `labels` has `user_id` and `label`; None where they are not known."""
    part = part_of(layout, record.day)
    if part is None or record.canary is None:
        raise DataError(f"{record.day} has no canary's users", remedy="name a day that a canary took part in")
    table = _read(part)
    is_canary = pc.equal(table.column(ROUTE_COLUMN), CANARY)
    sides = [
        _side(bundle_id, table.filter(mask), labels)
        for bundle_id, mask in ((record.bundle_id, pc.invert(is_canary)), (record.canary["bundle_id"], is_canary))
    ]
    share = float(record.canary["share"])
    problems = tuple(_problems(sides[0], sides[1], share, limits, max_loss_rise))
    return Comparison(day=record.day, share=share, stable=sides[0], canary=sides[1], problems=problems)


def _read(part: Path) -> pa.Table:
    batches = list(iter_batches(part, columns=[ID_COLUMN, "score", ROUTE_COLUMN]))
    table = pa.Table.from_batches(batches)
    return table.set_column(2, ROUTE_COLUMN, table.column(2).cast(pa.string()))


def _side(bundle_id: str, rows: pa.Table, labels: pa.Table | None) -> Side:
    scores = rows.column("score").to_numpy().astype(np.float64)
    places = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
    told: dict[str, Any] = {
        "bundle_id": bundle_id,
        "rows": len(scores),
        "mean": float(scores.mean()) if len(scores) else math.nan,
        "counts": tuple(int(count) for count in np.bincount(places, minlength=BINS)),
    }
    return Side(**told, **({} if labels is None else _quality(rows, scores, labels)))


def _quality(rows: pa.Table, scores: np.ndarray, labels: pa.Table) -> dict[str, Any]:
    """How the scores did, on the users of the group that have a label."""
    places = pc.index_in(rows.column(ID_COLUMN).cast(pa.string()), value_set=labels.column(ID_COLUMN).combine_chunks())
    is_known = pc.is_valid(places).to_numpy()
    if not is_known.any():
        return {}
    truths = labels.column("label").to_numpy().astype(np.float64)[places.drop_null().to_numpy()]
    bounded = np.clip(scores[is_known], _LOGIT_BOUND, 1 - _LOGIT_BOUND)
    logits = np.log(bounded / (1 - bounded))
    losses = log_losses(logits, truths)
    return {
        "labelled": len(truths),
        "rate": float(truths.mean()),
        "auc": auc(logits, truths),
        "log_loss": float(losses.mean()),
        "loss_error": float(losses.std() / math.sqrt(len(losses))),
    }


def _problems(stable: Side, canary: Side, share: float, limits: Limits, max_loss_rise: float) -> Iterator[str]:
    rows = stable.rows + canary.rows
    allowed = DEVIATIONS * math.sqrt(rows * share * (1 - share)) + 1
    if abs(canary.rows - rows * share) > allowed:
        yield f"{canary.rows:,} of {rows:,} users are the canary's, {share:.2%} were to be"
    moved = psi(canary.counts, stable.counts)
    if min(stable.rows, canary.rows) >= limits.min_drift_rows and not moved <= limits.max_score_psi:
        yield f"the PSI between the groups is {moved:.3f}, allowed is {limits.max_score_psi:g}"
    if canary.log_loss is not None and stable.log_loss is not None:
        error = math.hypot(canary.loss_error or 0.0, stable.loss_error or 0.0)
        if canary.log_loss - DEVIATIONS / 2 * error > stable.log_loss * (1 + max_loss_rise):
            yield f"its log loss is {canary.log_loss:.4f} beside {stable.log_loss:.4f}, which is more than chance"
