"""Room on the disk is asked for before it is filled, and what is missing is said in bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from profile_assets.errors import DiskError, PermanentError
from profile_assets.storage.layout import Layout
from profile_assets.storage.space import require_space


def test_a_disk_with_room_is_let_pass_even_before_the_first_folder_is_there(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path / "not" / "there", name="purchase")
    require_space(layout, "the day", 0)
    require_space(layout, "the day", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_named_with_what_is_needed_and_what_is_left(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(DiskError, match=r"user_shards of .* needs about [\d,]+ bytes, the disk of .* left") as it:
        require_space(Layout(root=tmp_path, name="purchase"), "user_shards of 2026-01-05", 2.0 * free + 2**40)
    assert isinstance(it.value, PermanentError)
    assert "free some space" in it.value.remedy
