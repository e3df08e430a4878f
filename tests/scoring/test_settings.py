"""Settings that cannot work are refused where they are made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from profile_assets.errors import ProfileError
from profile_assets.scoring.settings import ScoringSettings


@pytest.mark.parametrize("rows", [0, -256, 100, 255, 257, 1000])
def test_a_batch_is_a_multiple_of_256(rows: int) -> None:
    with pytest.raises(ProfileError, match=f"batch_rows is {rows}"):
        ScoringSettings(batch_rows=rows)


def test_no_threads_and_no_workers_are_refused() -> None:
    with pytest.raises(ProfileError, match="0 threads"):
        ScoringSettings(threads=0)
    with pytest.raises(ProfileError, match="0 workers"):
        ScoringSettings(workers=0)


def test_the_settings_need_no_torch() -> None:
    check = "import sys, profile_assets.scoring.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
