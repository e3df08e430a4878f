"""The usual scoring script: a file into pandas, `iloc` a batch at a time, scores appended, a frame written.

Option `batch_rows`. One torch thread: with two on a busy machine it would be slower still.
"""

from __future__ import annotations

import pandas as pd
import torch

from benchmarks.child import measured, read_job
from benchmarks.peers.usual import Lookups, lookups, score_frame
from profile_assets.models.bundle import Bundle, load_bundle


def main() -> None:
    """Score every file of the job."""
    torch.set_num_threads(1)
    job = read_job()
    bundle = load_bundle(job.bundle)
    slots = lookups(bundle.spec)
    with measured():
        for source in job.files:
            scored = score_users(pd.read_parquet(source), bundle, slots, job.options["batch_rows"])
            scored.to_parquet(job.target(source), index=False)


def score_users(users: pd.DataFrame, bundle: Bundle, slots: Lookups, batch_rows: int) -> pd.DataFrame:
    """user_id and score of each user."""
    parts = []
    for start in range(0, len(users), batch_rows):
        part = users.iloc[start : start + batch_rows]
        parts.append(pd.DataFrame({"user_id": part["user_id"], "score": score_frame(part, bundle, slots)}))
    return pd.concat(parts)


if __name__ == "__main__":
    main()
