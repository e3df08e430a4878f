"""What looks at a published day beside the night's run is tried again as the profile says, like every stage."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from profile_assets.errors import StorageError
from profile_assets.models.registry import set_first_stable, set_pointer
from profile_assets.orchestration import canary, shadow

DAY = dt.date(2026, 1, 5)
RETRIES = "\n[retries]\nwaits_s = [0, 0]\n"


def failing(times: int, then: Callable[..., Any]) -> tuple[list[int], Callable[..., Any]]:
    """A disk that is away that many times before it can be read; the attempts are counted."""
    attempts: list[int] = []

    def read(*arguments: Any) -> Any:
        attempts.append(len(attempts) + 1)
        if len(attempts) <= times:
            raise StorageError("the disk is away", remedy="wait")
        return then(*arguments)

    return attempts, read


@pytest.fixture
def small(make_small: Callable[[str], Any]) -> Any:
    small = make_small(RETRIES + "\n[canary]\nshare = 0.25\n")
    small.put_users(DAY)
    set_first_stable(small.layout, small.put_model(1), "the first")
    other = small.put_model(2)
    for name in ("canary", "shadow"):
        set_pointer(small.layout, name, other, by="ana", why="is it better?")
    small.session.score(DAY)
    return small


def test_the_check_of_the_canary_is_tried_again(small: Any, monkeypatch: pytest.MonkeyPatch):
    attempts, read = failing(2, canary.compare_canary)
    monkeypatch.setattr(canary, "compare_canary", read)
    small.session.compare_canary()
    assert attempts == [1, 2, 3]
    assert small.evaluation("canary").metadata["day"].value == DAY.isoformat()


def test_the_shadow_is_tried_again_and_leaves_what_one_attempt_leaves(small: Any, monkeypatch: pytest.MonkeyPatch):
    attempts, read = failing(2, shadow.score_shadow)
    monkeypatch.setattr(shadow, "score_shadow", read)
    small.session.shadow(DAY)
    assert attempts == [1, 2, 3]
    assert small.shown("shadow_scores")["dagster/row_count"] == 400
