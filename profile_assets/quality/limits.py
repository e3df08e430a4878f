"""The limits of a profile: when a day is too bad to be seen. 0 is a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`max_row_change` is relative and `max_null_rate_change` absolute, both against the newest earlier published day;
    those that end in `_weekday` against the newest of the same weekday. PSIs are sizes of effect (`quality/drift.py`),
    and below `min_drift_rows` rows are not judged.
    """

    min_rows: int
    max_row_change: float
    max_null_rate_change: float
    max_row_change_weekday: float = 0.5
    max_null_rate_change_weekday: float = 0.1
    max_shard_skew: float = 1.5
    max_score_psi: float = 0.2
    max_unknown_rate: float = 0.1
    max_feature_psi: float = 0.2
    on_feature_drift: Literal["warn", "fail"] = "warn"
    min_drift_rows: int = 1000
    score_minimum: float = 0.0
    score_maximum: float = 1.0
