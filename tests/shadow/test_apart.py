"""A process of its own: whatever becomes of it, the caller goes on, and nothing of it is left."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from profile_assets.errors import ScoringError
from profile_assets.shadow.apart import run_apart

SOURCE = Path(__file__).with_name("works.py")


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The functions of works.py, as a module that another process finds too."""
    (tmp_path / "path").mkdir()
    shutil.copy(SOURCE, tmp_path / "path" / "works_of_a_shadow.py")
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.delitem(sys.modules, "works_of_a_shadow", raising=False)
    import works_of_a_shadow

    return works_of_a_shadow


def apart(work: Any, argument: Any, limit_s: float = 300) -> dict[str, Any]:
    return run_apart(work, argument, limit_s=limit_s, what="the shadow")


def test_it_answers_from_another_process_in_a_group_of_its_own(works: Any):
    found = apart(works.double, 21)
    assert found["doubled"] == 42
    assert found["pid"] == found["group"] != os.getpid()
    assert not psutil.pid_exists(found["pid"])


def test_an_error_that_is_meant_keeps_its_words(works: Any):
    with pytest.raises(ScoringError, match="the shadow: 7 is no day -> name one"):
        apart(works.refuse, 7)


@pytest.mark.parametrize("how", ["break_off", "leave", "die", "babble"])
def test_one_that_breaks_leaves_dies_or_babbles_is_one_error(works: Any, how: str):
    with pytest.raises(ScoringError, match=r"the process of the shadow ended without an answer \(exit status -?\d"):
        apart(getattr(works, how), 3)


def test_one_that_hangs_is_ended_at_the_limit_with_all_that_it_started(works: Any, tmp_path: Path):
    pids = tmp_path / "pids"
    with pytest.raises(ScoringError, match="was not done after 8 s, and its process was ended"):
        apart(works.hang, str(tmp_path), limit_s=8)
    started = pids.read_text().split() if pids.exists() else []  # a busy machine may not even have come so far
    for pid in map(int, started):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
