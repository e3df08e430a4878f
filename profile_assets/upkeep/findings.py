"""What a look at one part of a day found, and how an error of ours becomes what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from profile_assets.errors import ProfileAssetsError

State = Literal["right", "noted", "wrong", "missing", "unreachable", "pruned", "none"]
FAULTS = ("wrong", "missing", "unreachable")
"""What is never right: other than it should be, gone, or not to be asked just now."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found of one part of a day: `none` where it has no such part, and needs none; `noted` where what readers
    see is as it should be, and somebody has to know of something beside it.
    """

    part: str
    state: State
    detail: str


def looked(part: str, look: Callable[[], tuple[State, str]]) -> Finding:
    """The finding of one look; an error of ours is what is wrong."""
    try:
        state, detail = look()
    except ProfileAssetsError as error:
        state, detail = "wrong", str(error)
    return Finding(part=part, state=state, detail=detail)
