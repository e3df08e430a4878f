"""How long the data of a day is kept. What is kept for good is not a setting: the table, and what is said of days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Days for which the data of a stage is kept, counted from the end of the day it is of.

    `raw_days` also holds for the rows set aside, which are the same people's, and for what dead runs left staged.
    """

    raw_days: int = 14
    shards_days: int = 14
    scores_days: int = 30

    @property
    def of_stage(self) -> Mapping[str, int]:
        """The days by stage."""
        return {RAW_USERS: self.raw_days, USER_SHARDS: self.shards_days, USER_SCORES: self.scores_days}
