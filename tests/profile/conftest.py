from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MINIMAL = """
name = "risk"
time_zone = "Europe/Berlin"
start_day = 2026-01-01
[source]
path = "in/{day}"
[contract]
id = "account"
[[contract.columns]]
name = "balance"
type = "float64"
[[contract.columns]]
name = "country"
type = "string"
[model]
features = [{ name = "balance" }, { name = "country" }]
"""


@pytest.fixture
def minimal() -> str:
    """The shortest profile that is complete."""
    return MINIMAL


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a profile file."""

    def write_profile(text: str) -> Path:
        path = tmp_path / "profile.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_profile
