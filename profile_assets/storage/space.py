"""Room on the disk, asked for before work that would fill it: a stage that ends half way costs more than a look.

What a stage will need is told from the bytes of what it is made from, by a factor that is stated beside it. The old
files of a day stay until the new ones take their place, so nothing is counted twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from profile_assets.errors import DiskError
from profile_assets.storage.atomic import disk_errors
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import Manifest


def require_space(layout: Layout, doing: str, needed_bytes: float) -> None:
    """DiskError naming both numbers unless the disk on which stages are built has that much left for this user."""
    at = _nearest(layout.staging_root)
    with disk_errors("cannot look at", at):
        free = shutil.disk_usage(at).free
    if free < needed_bytes:
        raise DiskError(
            f"{doing} needs about {needed_bytes:,.0f} bytes, the disk of {at} has {free:,} left",
            remedy="free some space on that disk (`profile-assets prune` removes old days), then run the day again",
        )


def bytes_of(manifest: Manifest) -> int:
    """The bytes of a stage's data files."""
    return sum(entry.size_bytes for entry in manifest.files)


def _nearest(path: Path) -> Path:
    """The folder itself, or the first above it that is there."""
    return next(one for one in (path, *path.parents) if one.exists())
