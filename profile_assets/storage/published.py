"""What is said of a published day: rows, keys, what it came from, under which verdict, and the state of each target.

The offline table's file carries the same record in its footer, because the rename of that file is the commit: a
record lost to a crash is written again from there. Days are published by record, never by a file's age.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from profile_assets.errors import CorruptError
from profile_assets.storage import atomic
from profile_assets.storage.days import as_utc
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import read_footer
from profile_assets.storage.parts import days_of, part_of
from profile_assets.storage.parts_there import footer_there
from profile_assets.storage.records import FORMAT, read_json

OFFLINE = "offline"
ONLINE = "online"
BUCKET = "s3"
FOOTER_KEY = "publish_record"

State = Literal["done", "older", "pending", "withdrawn"]


@dataclass(frozen=True, kw_only=True)
class TargetState:
    """Whether readers of one target see the day, and the UTC moment of which that is said; `note` says more.

    `older` is said of a day that lookups do not serve because they serve a newer one.
    """

    state: State
    at: dt.datetime
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Live:
    """What a store of lookups said when it was asked just now: the publication that it serves, by its day and moment;
    None where that is none. `trouble` says what is wrong with it. Unless `is_known` it could not be asked.
    """

    where: str
    day: dt.date | None = None
    published_at: dt.datetime | None = None
    trouble: str = ""
    is_known: bool = True


@dataclass(frozen=True, kw_only=True)
class PublishRecord:
    """One published day.

    `sources` maps each stage to the manifest digest that was published; `rows_digest` is that of the ids and scores in
    the table's file (`ScoreOrder`), None until they are written; `null_rates` maps each column of the landed
    table to its share of missing rows, for later days to compare themselves with. `canary` tells of the bundle that
    scored a share of the users, if one did: bundle_id, share, salt, rows.
    """

    day: dt.date
    rows: int
    keys: KeySet
    verdict_digest: str
    sources: Mapping[str, str]
    bundle_id: str
    rows_digest: str | None = None
    null_rates: Mapping[str, float] = field(default_factory=dict)
    targets: Mapping[str, TargetState]
    canary: Mapping[str, Any] | None = None

    @property
    def is_offline_done(self) -> bool:
        target = self.targets.get(OFFLINE)
        return target is not None and target.state == "done"

    @property
    def published_at(self) -> dt.datetime:
        """When these rows were about to be written: readers of the offline table see them shortly after."""
        return self.targets[OFFLINE].at

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "day": self.day.isoformat(),
            "rows": self.rows,
            "keys": self.keys.to_json(),
            "verdict_digest": self.verdict_digest,
            "sources": dict(self.sources),
            "bundle_id": self.bundle_id,
            "rows_digest": self.rows_digest,
            "null_rates": dict(self.null_rates),
            "targets": {name: _target_to_json(target) for name, target in self.targets.items()},
            **({} if self.canary is None else {"canary": dict(self.canary)}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PublishRecord:
        return cls(
            day=dt.date.fromisoformat(value["day"]),
            rows=value["rows"],
            keys=KeySet.from_json(value["keys"]),
            verdict_digest=value["verdict_digest"],
            sources=value["sources"],
            bundle_id=value["bundle_id"],
            rows_digest=value.get("rows_digest"),  # absent from records of before it was kept
            null_rates=value["null_rates"],
            targets={name: _target(target) for name, target in value["targets"].items()},
            canary=value.get("canary"),
        )


def with_target(record: PublishRecord, target: str, state: State, at: dt.datetime, note: str = "") -> PublishRecord:
    """The record with another state of one target."""
    told = TargetState(state=state, at=as_utc(at), note=note)
    return dataclasses.replace(record, targets={**record.targets, target: told})


def _target_to_json(target: TargetState) -> dict[str, str]:
    note = {"note": target.note} if target.note else {}
    return {"state": target.state, "at": target.at.isoformat(), **note}


def _target(value: Mapping[str, Any]) -> TargetState:
    if value["state"] not in get_args(State):
        raise ValueError(f"the state {value['state']!r}")
    return TargetState(state=value["state"], at=dt.datetime.fromisoformat(value["at"]), note=value.get("note", ""))


def read_record(layout: Layout, day: dt.date) -> PublishRecord | None:
    """The record of a day; None where there is none."""
    path = layout.publish_record(day)
    return _parse(read_json(path), path, day) if path.exists() else None


def write_record(layout: Layout, record: PublishRecord) -> None:
    """Make this the record of its day."""
    atomic.write_json(layout.publish_record(record.day), record.to_json(), staging=layout.scratch("records"))


def tell(
    layout: Layout, record: PublishRecord, target: str, state: State, at: dt.datetime, note: str = ""
) -> PublishRecord:
    """Record the state of a target; a record that says the same already keeps its moment."""
    known = record.targets.get(target)
    if known is None or (known.state, known.note) != (state, note):
        record = with_target(record, target, state, at, note)
        write_record(layout, record)
    return record


def published_days(layout: Layout) -> list[dt.date]:
    """The days that readers of the offline table see, oldest first: those that the table has."""
    return days_of(layout)


def read_part_record(layout: Layout, day: dt.date) -> PublishRecord | None:
    """The record in the footer of the day's published file, which is the truth; None where there is no such file."""
    path = layout.offline_part(day)
    footer = None if path.exists() else footer_there(path)  # its rows are not needed
    if footer is not None:
        return _record_in(footer, path, day)
    part = part_of(layout, day)
    return None if part is None else footer_record(part, day)


def footer_record(path: Path, day: dt.date) -> PublishRecord:
    """The record in the footer of a file of the table that holds `day`."""
    return _record_in(read_footer(path), path, day)


def _record_in(footer: Mapping[str, str], path: Path, day: dt.date) -> PublishRecord:
    if FOOTER_KEY not in footer:
        raise CorruptError(f"{path} was not written by a publication", remedy=f"remove it and publish {day} again")
    return _parse(footer[FOOTER_KEY], path, day)


def _parse(value: Mapping[str, Any] | str, path: Path, day: dt.date | None = None) -> PublishRecord:
    """The record that `value` holds, as JSON or read already; `path` is where it was found."""
    try:
        record = PublishRecord.from_json(json.loads(value) if isinstance(value, str) else value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{path} lacks or bends {error}", remedy="remove it and publish its day again") from error
    if day not in (None, record.day):
        raise CorruptError(f"{path} speaks of {record.day}", remedy=f"remove it and publish {day} again")
    return record
