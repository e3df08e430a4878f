"""The users of a day by the bundle that gave their scores: one group as a rule, two while a canary scores a share.

Each group is looked at as a day of its own: its scores, its drift and what its bundle was shown. What is said of the
canary's users has "(canary)" behind the column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.features.bins import Bins
from profile_assets.quality import scores_table
from profile_assets.quality.baseline import Baseline
from profile_assets.quality.limits import Limits
from profile_assets.quality.looks import Look
from profile_assets.quality.scores_table import EVEN_EDGES, ScoreCounts
from profile_assets.storage.outcomes import Outcome
from profile_assets.storage.records import Manifest

_MARK = " (canary)"
_REMEDY = ' -> to go on without the canary: profile-assets models canary --withdraw --why "..."'


@dataclass(frozen=True, kw_only=True)
class Group:
    """The users of one bundle. `manifest` has their rows, by file, and what was counted of them.

    `canary` is True for the canary's users, False for the others of such a day, None where there is one group.
    """

    manifest: Manifest
    bins: Bins | None
    canary: bool | None = None
    canary_id: str = ""

    @property
    def edges(self) -> Sequence[float]:
        """The bins of the scores."""
        return EVEN_EDGES if self.bins is None else self.bins.score.edges

    def count(self, folder: Path) -> ScoreCounts:
        """The scores of these users, read from the files in a folder."""
        paths = [folder / entry.name for entry in self.manifest.files]
        return scores_table.count_scores(paths, self.edges, canary=self.canary)

    def compared_with(self, baseline: Baseline) -> bool | None:
        """Which users of an earlier day are held against these: True for its canary's, False its others', None all."""
        if not baseline.canary_id:
            return None
        return self.canary is True and baseline.canary_id == self.canary_id

    def looks(
        self, counts: ScoreCounts, before: ScoreCounts | None, baseline: Baseline | None, limits: Limits
    ) -> Iterator[Look]:
        """Everything that is looked at. Nothing, where nobody is in a canary's share."""
        if self.canary and self.manifest.rows == 0 and counts.day.rows == 0:
            return
        looks = [
            *scores_table.score_looks(counts, limits),
            scores_table.score_drift_look(counts, before, baseline, limits),
            *scores_table.unknown_looks(self.manifest, limits, self.bins),
            *scores_table.feature_drift_looks(self.manifest, counts, self.bins, limits),
        ]
        for look in looks:
            yield dataclasses.replace(look, column=f"{look.column}{_MARK}") if self.canary else look

    def table(self, counts: ScoreCounts) -> pa.Table:
        """What was measured, for people."""
        table = scores_table.measures_table(self.manifest, counts)
        if not self.canary:
            return table
        place = table.schema.get_field_index("column")
        marked = pc.binary_join_element_wise(table.column(place), pa.scalar(_MARK), "")
        return table.set_column(place, table.schema.field(place), marked)


def groups_of(manifest: Manifest, bins: Bins | None, canary_bins: Bins | None) -> list[Group]:
    """The groups of a day's scores: the users of the day's bundle first."""
    told = manifest.facts.get("canary")
    if told is None:
        return [Group(manifest=manifest, bins=bins)]
    taken = told["rows_by_shard"]
    others = [dataclasses.replace(entry, rows=entry.rows - taken[entry.name]) for entry in manifest.files]
    theirs = [dataclasses.replace(entry, rows=taken[entry.name]) for entry in manifest.files]
    return [
        Group(manifest=dataclasses.replace(manifest, files=tuple(others)), bins=bins, canary=False),
        Group(
            manifest=dataclasses.replace(manifest, files=tuple(theirs), facts=told),
            bins=canary_bins,
            canary=True,
            canary_id=told["bundle_id"],
        ),
    ]


def with_remedy(outcome: Outcome) -> Outcome:
    """The outcome; where it is the canary's users that stop the day, with what to do."""
    stops = not outcome.lets_through and _MARK in outcome.detail
    return dataclasses.replace(outcome, detail=outcome.detail + _REMEDY) if stops else outcome
