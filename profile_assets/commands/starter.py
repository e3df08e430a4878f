"""A folder to begin in: Dagster's own files and a profile to correct, as the package carries them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from profile_assets.errors import DiskError, ProfileError

FILES = ("dagster.yaml", "workspace.yaml", "profile.toml")


def write_starter(folder: Path) -> list[Path]:
    """Write the files and give their paths. ProfileError, and nothing written, where one of them is there already."""
    paths = [folder / name for name in FILES]
    there = [path.name for path in paths if path.exists()]
    if there:
        raise ProfileError(f"{folder} has {', '.join(there)} already", remedy="name another folder, or move them away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            with path.open("x", encoding="utf-8") as file:
                file.write((resources.files("profile_assets") / "starter" / path.name).read_text("utf-8"))
    except OSError as error:
        raise DiskError(f"{folder} cannot be written: {error}", remedy="name a folder that can be") from error
    return paths
