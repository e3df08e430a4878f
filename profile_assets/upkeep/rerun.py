"""A run of a published day that came to no publication: it judged other data, and what is published stands.

Its verdict has taken the place of the one that the day was published under, and it may have replaced some stages.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from profile_assets.storage.layout import Layout
from profile_assets.storage.outcomes import UNRELEASABLE, Outcome
from profile_assets.storage.published import PublishRecord, read_part_record
from profile_assets.storage.records import Manifest
from profile_assets.storage.verdicts import Verdict, read_verdict


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """`published` is what readers see, `verdict` what was judged later."""

    published: PublishRecord
    verdict: Verdict

    @property
    def stopping(self) -> tuple[Outcome, ...]:
        return tuple(one for stage in self.verdict.stages.values() for one in stage.stopping)

    def replaced(self, manifests: Mapping[str, Manifest]) -> list[str]:
        """The stages that are not those that were published."""
        sources = self.published.sources
        return [stage for stage, manifest in manifests.items() if sources.get(stage) != manifest.digest]

    def has_left(self, manifests: Mapping[str, Manifest]) -> bool:
        """Whether these are what a run that a check stopped left behind, and no damage."""
        judged = {stage: one.digest for stage, one in self.verdict.stages.items()}
        left = [judged.get(stage) == manifests[stage].digest for stage in self.replaced(manifests)]
        return bool(self.stopping and left) and all(left)

    def __str__(self) -> str:
        day = self.published.day
        run = f"`profile-assets backfill {day} {day} --again`"
        if not self.stopping:
            return f"a later run judged other data and published none of it; {run} takes it up"
        told = f"a later run was stopped by {', '.join(one.check for one in self.stopping)}; mend that and {run}"
        if any(one.result != "fail" or one.check in UNRELEASABLE for one in self.stopping):
            return told
        release = f'`profile-assets release {day} --check {self.stopping[0].check} --why "..."`'
        return f"{told}, or {release} first if its data is right"


def rerun_of(layout: Layout, day: dt.date) -> Rerun | None:
    """The later run of a published day; None where the verdict is of what is published, or there is none of either."""
    published, verdict = read_part_record(layout, day), read_verdict(layout, day)
    if published is None or verdict is None or not published.verdict_digest:
        return None
    judged = {stage: one.digest for stage, one in verdict.stages.items() if stage in published.sources}
    return None if judged == dict(published.sources) else Rerun(published=published, verdict=verdict)


def again(day: dt.date) -> str:
    """What makes a day anew."""
    return f"`profile-assets backfill {day} {day} --again` makes it anew"
