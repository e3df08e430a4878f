"""Who is told of what, as plain settings, and the channels as the environment opens them.

An address is a secret: it comes from the environment, is shown nowhere, and a channel is known by its variable's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")

Kind = Literal[
    "stale",
    "source_late",
    "pending_target",
    "run_failed",
    "gate_failed",
    "quarantine",
    "drift",
    "not_reconciled",
    "unjudged",
    "all_well",
    "test",
]


@dataclass(frozen=True, kw_only=True)
class ChannelSettings:
    """One variable with Apprise URLs, and what goes there: everything from a severity up, or only some kinds."""

    url_env: str
    min_severity: Severity = "info"
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """`group_minutes`: failures of runs are told once so long has passed without another. `morning_hour`: when all is
    well that is said, once a day; None says nothing. `ui_url` is where the Dagster UI is found.
    """

    channels: tuple[ChannelSettings, ...] = ()
    morning_hour: int | None = None
    group_minutes: float = 5.0
    pending_minutes: float = 30.0
    max_quarantine_rate: float = 0.005
    ui_url: str | None = None
    heartbeat_url_env: str | None = None
    metrics_file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One address. `url` is None where its variable is not set: what is sent there waits until it is."""

    name: str
    url: str | None = field(repr=False)
    min_severity: Severity = "info"
    kinds: tuple[Kind, ...] = ()

    def takes(self, kind: Kind, severity: Severity) -> bool:
        """Whether it wants to be told. Everybody gets a test."""
        is_severe = SEVERITIES.index(severity) >= SEVERITIES.index(self.min_severity)
        return kind == "test" or (is_severe and (not self.kinds or kind in self.kinds))


def open_channels(settings: Sequence[ChannelSettings], environment: Mapping[str, str]) -> tuple[Channel, ...]:
    """Every address; several in one variable stand apart by blanks or lines, and are counted: NAME, NAME[2], ..."""
    found: list[Channel] = []
    for one in settings:
        urls: Sequence[str | None] = environment.get(one.url_env, "").split() or [None]
        for number, url in enumerate(urls, start=1):
            name = one.url_env if number == 1 else f"{one.url_env}[{number}]"
            found.append(Channel(name=name, url=url, min_severity=one.min_severity, kinds=one.kinds))
    return tuple(found)
