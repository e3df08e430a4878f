"""Files that each look writes anew: replaced whole, by a rename beside them, and not forced to the disk.

Whoever reads one sees the last look or the one before. What a crash of the machine loses is written a tick later.
"""

from __future__ import annotations

from pathlib import Path

from profile_assets.storage import atomic


def replace_text(path: Path, text: str) -> None:
    """Make `text` the content of the file, readable for all."""
    with atomic.disk_errors("cannot write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.parent / atomic.unique_name(f".{path.name}.tmp")
        try:
            staged.write_text(text, encoding="utf-8")
            staged.chmod(0o644)
            staged.replace(path)
        finally:
            staged.unlink(missing_ok=True)
