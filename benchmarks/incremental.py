"""The second of two days, scored in full or incrementally, from its shards to its sealed scores.

Options: `root`, `mode`. Facts: the users carried, the forwards, and the rows of one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.changed import SECOND_DAY, settings
from benchmarks.child import measured, read_job
from benchmarks.data import NAME
from profile_assets.models.registry import stable_bundle
from profile_assets.scoring.day import score_day
from profile_assets.scoring.scorer import scorer_for
from profile_assets.storage.layout import USER_SCORES, Layout


def main() -> None:
    """Score the day; whatever an earlier run of either mode left is gone."""
    job = read_job()
    layout = Layout(root=Path(job.options["root"]), name=NAME)
    shutil.rmtree(layout.staging(USER_SCORES, SECOND_DAY), ignore_errors=True)
    bundle = stable_bundle(layout)
    scorer = scorer_for(bundle, settings("full"))
    before = scorer.forwards
    with measured() as facts:
        staged = score_day(layout, SECOND_DAY, bundle, settings(job.options["mode"]))
        carried = staged.manifest.facts.get("carrying", {}).get("carried", 0)
        facts.update(carried=carried, forwards=scorer.forwards - before, batch_rows=scorer.batch_rows)


if __name__ == "__main__":
    main()
