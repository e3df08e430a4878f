"""A day's scoring that dies, by SIGKILL, when all shards but the last are done; then the same day again.

Options: `root` (split, not scored), `die_after` (how many shards; 0: live on). Facts of the second run: how many
shards it scored, how many it kept.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from benchmarks.child import measured, read_job
from benchmarks.data import FIRST_DAY, NAME
from profile_assets.models.registry import stable_bundle
from profile_assets.scoring.day import ShardDone, score_day
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.layout import Layout


def main() -> None:
    """Score the day, or die on the way."""
    job = read_job()
    layout = Layout(root=Path(job.options["root"]), name=NAME)
    deadly = job.options["die_after"]

    def progress(done: ShardDone) -> None:
        if done.done == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    with measured() as facts:
        staged = score_day(layout, FIRST_DAY, stable_bundle(layout), ScoringSettings(device="cpu"), progress=progress)
        facts.update(scored=staged.manifest.notes["scored"], kept=staged.manifest.notes["kept"])


if __name__ == "__main__":
    main()
