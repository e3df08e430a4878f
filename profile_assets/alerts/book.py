"""What is remembered between two looks, in one file: open episodes, letters that wait, and how each channel does.

It is kept on the disk and not in Dagster's cursor, which is stored only when a whole tick has ended: a tick that died
after a delivery would tell everything twice. The file is replaced after every single delivery. The holder of its lock
is the only one that reads and writes it.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from profile_assets.alerts.alert import Alert
from profile_assets.alerts.episodes import Episode
from profile_assets.errors import CorruptError
from profile_assets.storage import atomic
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT, read_json

_MOST_TOLD = 2000
_LOGGER = logging.getLogger("profile_assets.alerts")


@dataclass(kw_only=True)
class Letter:
    """An alert on its way. `waiting` are the channels that have not taken it, with how often it was tried there."""

    id: str
    alert: Alert
    at: dt.datetime
    waiting: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "alert": self.alert.to_json(), "at": self.at.isoformat(), "waiting": self.waiting}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Letter:
        return cls(
            id=value["id"],
            alert=Alert.from_json(value["alert"]),
            at=dt.datetime.fromisoformat(value["at"]),
            waiting=dict(value["waiting"]),
        )


@dataclass(kw_only=True)
class ChannelState:
    """How a channel does: failures in a row, when it is tried again, what it said last, and counts over all time."""

    failures: int = 0
    not_before: dt.datetime | None = None
    said: str = ""
    sent: int = 0
    failed: int = 0
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "not_before": None if self.not_before is None else self.not_before.isoformat()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ChannelState:
        at = value["not_before"]
        return cls(**{**value, "not_before": None if at is None else dt.datetime.fromisoformat(at)})


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """The newest run of the day's job that ended."""

    day: str
    seconds: float
    is_success: bool


@dataclass(kw_only=True)
class Book:
    """`told` are the failed runs of which a letter was written; `morning` the last day of which all was said well."""

    episodes: list[Episode] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    channels: dict[str, ChannelState] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    morning: str = ""
    number: int = 0
    heartbeat_failures: int = 0
    last_run: FinishedRun | None = None

    def next_id(self) -> str:
        """A letter's name; later letters have higher ones."""
        self.number += 1
        return f"{self.number:08d}"

    def channel(self, name: str) -> ChannelState:
        return self.channels.setdefault(name, ChannelState())

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "episodes": [one.to_json() for one in self.episodes],
            "letters": [one.to_json() for one in self.letters],
            "channels": {name: one.to_json() for name, one in self.channels.items()},
            "told": self.told[-_MOST_TOLD:],
            "morning": self.morning,
            "number": self.number,
            "heartbeat_failures": self.heartbeat_failures,
            "last_run": None if self.last_run is None else dict(self.last_run.__dict__),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Book:
        return cls(
            episodes=[Episode.from_json(one) for one in value["episodes"]],
            letters=[Letter.from_json(one) for one in value["letters"]],
            channels={name: ChannelState.from_json(one) for name, one in value["channels"].items()},
            told=list(value["told"]),
            morning=value["morning"],
            number=value["number"],
            heartbeat_failures=value["heartbeat_failures"],
            last_run=None if value["last_run"] is None else FinishedRun(**value["last_run"]),
        )


@contextlib.contextmanager
def opened(layout: Layout) -> Iterator[Book]:
    """The book, held by this process alone; LockedError where another tick holds it for long."""
    with atomic.locked(layout.shared_lock("alerts"), what=f"the alerts of {layout.name}", wait_s=20.0):
        yield read(layout)


def read(layout: Layout) -> Book:
    """The book as it is; an empty one where there is none yet, or where it is damaged, which is kept for a look."""
    path = layout.alerts / "book.json"
    if not path.exists():
        return Book()
    try:
        return Book.from_json(read_json(path))
    except (CorruptError, KeyError, TypeError, ValueError, AttributeError) as error:
        _LOGGER.error("%s is damaged and a new one is begun, so that alerts may come twice: %s", path, error)
        with atomic.disk_errors("cannot set aside", path):
            path.replace(path.with_suffix(".damaged"))
        return Book()


class Saver:
    """Makes this the book, whenever it says something else than before."""

    def __init__(self, layout: Layout, book: Book) -> None:
        """`book` is as it was read: only what changes from here on is written."""
        self._layout, self._book = layout, book
        self._saved = copy.deepcopy(book.to_json())

    def __call__(self) -> None:
        value = self._book.to_json()
        if value != self._saved:
            atomic.write_json(self._layout.alerts / "book.json", value, staging=self._layout.scratch("records"))
            self._saved = copy.deepcopy(value)
