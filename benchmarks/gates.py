"""What the gates cost beside scoring: a day split, scored, judged and published once, the gates' part of it apart.

Options: `root` (where the first day is landed), `warm` (a small world, judged first, so that Great Expectations is
imported before the clock runs), `shards`. Facts: CPU seconds of each gate and of scoring. What a gate does inside the
split or inside scoring is timed there, by the clock of its own thread.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.child import measured, read_job
from benchmarks.data import FIRST_DAY
from profile_assets.feature_store.publish import publish
from profile_assets.features.encode import Encoded
from profile_assets.models.bundle_files import read_bins
from profile_assets.models.registry import stable_bundle
from profile_assets.profile import load_deployment
from profile_assets.quality.gates import find_baselines, judge_export, judge_raw, judge_scores, judge_shards
from profile_assets.quality.measures import Meter
from profile_assets.scoring.counts import Counts
from profile_assets.scoring.day import score_day
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.shards.split import split
from profile_assets.storage.layout import RAW_USERS
from profile_assets.storage.stages import Staged, commit, require
from profile_assets.storage.verdicts import StageVerdict, record
from profile_assets.users.land import commit_landing, land

NEXT_DAY = FIRST_DAY + dt.timedelta(days=1)


class Costs(dict[str, float]):
    """CPU seconds by part."""

    @contextmanager
    def of(self, part: str, clock: Callable[[], float] = time.process_time) -> Iterator[None]:
        began = clock()
        yield
        self[part] = self.get(part, 0.0) + clock() - began


class TimedMeter(Meter):
    """The meter, timed while the split runs."""

    costs: Costs

    def see_rows(self, rows: pa.Table, first: int, bounds: np.ndarray) -> None:
        with self.costs.of("measures, in the split"):
            super().see_rows(rows, first, bounds)

    def see_ids(self, words: np.ndarray) -> None:
        with self.costs.of("distinct ids, in the split"):
            super().see_ids(words)

    def end_shard(self, number: int) -> None:
        with self.costs.of("distinct ids, in the split"):
            super().end_shard(number)


def main() -> None:
    """Judge the small day, then two days of the large one: the second has a day to be compared with."""
    job = read_job()
    _day(Path(job.options["warm"]), FIRST_DAY, job.options["shards"], Costs())
    root, costs = Path(job.options["root"]), Costs()
    _day(root, FIRST_DAY, job.options["shards"], Costs())
    with measured() as facts:
        _day(root, NEXT_DAY, job.options["shards"], costs)
        facts.update(costs=dict(costs))


def _day(root: Path, day: dt.date, shards: int, costs: Costs) -> None:
    deployment = load_deployment(root / "profile.toml", environment={"PROFILE_DATA": str(root)})
    layout, rules = deployment.layout, deployment.rules
    commit_landing(layout, day, land(deployment.source, deployment.contract, day, layout))
    raw = Staged(folder=layout.stage(RAW_USERS, day), manifest=require(layout, RAW_USERS, day))
    with costs.of("judging the landed users"):
        baselines = find_baselines(layout, day)
        _record(layout, day, raw, judge_raw(layout, day, raw, rules, baselines))
    meter = TimedMeter(contract=deployment.contract)
    meter.costs = costs
    staged = split(layout, day, shards, watch=meter)
    with costs.of("judging the shards"):
        _record(layout, day, staged, judge_shards(layout, day, staged, rules, baselines, meter))
    commit(layout, day, staged)
    bundle = stable_bundle(layout)
    with costs.of("scoring"), _timed_counts(costs):
        scored = score_day(layout, day, bundle, ScoringSettings(device="cpu", workers=1))
    with costs.of("judging the scores"):
        _record(layout, day, scored, judge_scores(layout, day, scored, rules, baselines, read_bins(bundle)))
    commit(layout, day, scored)
    publish(layout, day, time_zone="UTC", clock=lambda: dt.datetime.now(dt.UTC))
    with costs.of("judging the export"):
        judge_export(layout, day)


def _record(layout: Any, day: dt.date, staged: Staged, outcomes: Any) -> None:
    record(layout, day, StageVerdict(stage=staged.manifest.stage, digest=staged.manifest.digest, outcomes=outcomes))


@contextmanager
def _timed_counts(costs: Costs) -> Iterator[None]:
    """Histograms are counted while scoring, in a thread of their own: that part is timed, and is no scoring."""
    count = Counts.add

    def timed(counts: Counts, encoded: Encoded) -> None:
        with costs.of("histograms, in scoring", clock=time.thread_time):
            count(counts, encoded)

    with patch.object(Counts, "add", timed):
        yield


if __name__ == "__main__":
    main()
