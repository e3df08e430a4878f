"""Dealing the landed users into shards, as the day does it: read, hash, write n files, read back and count.

Options: `root` (where the first day is landed and not split), `shards`.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.child import measured, read_job
from benchmarks.data import FIRST_DAY, NAME
from profile_assets.shards.split import split
from profile_assets.storage.layout import Layout


def main() -> None:
    """Split, and leave it staged."""
    job = read_job()
    layout = Layout(root=Path(job.options["root"]), name=NAME)
    with measured():
        split(layout, FIRST_DAY, job.options["shards"])


if __name__ == "__main__":
    main()
