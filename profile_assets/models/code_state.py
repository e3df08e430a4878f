"""Which code made a bundle: the commit of the checkout it ran from, and whether anything in it was changed."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent


def code_state() -> dict[str, str | bool | None]:
    """`commit` (None outside a checkout, or without git) and `is_dirty`."""
    commit = _git("rev-parse", "HEAD")
    changed = None if commit is None else _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_dirty": None if changed is None else bool(changed)}


def made_by() -> dict[str, object]:
    """What the provenance of a bundle says of its making: when (UTC), and by which code."""
    return {"made_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), "code": code_state()}


def _git(*arguments: str) -> str | None:
    """What git says of the folder of this file; None where there is no git, or no checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run([git, "-C", str(_HERE), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
