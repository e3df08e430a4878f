"""What a lookup store keeps: whole versions of a day's scores, one of which is live; and what every store can do."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from profile_assets.errors import CorruptError
from profile_assets.feature_store.buckets import Record
from profile_assets.storage.keys import KeySet
from profile_assets.storage.published import PublishRecord
from profile_assets.storage.records import digest_of


@dataclass(frozen=True, kw_only=True)
class Version:
    """The scores of one day as they were published once. `content` is the same for the same publication.

    `expires_at`: from then on its values are no longer fresh. `canary_id`: the bundle of the users on that route.
    """

    id: str
    day: dt.date
    content: str
    rows: int
    keys: KeySet
    bundle_id: str
    published_at: dt.datetime
    expires_at: dt.datetime
    canary_id: str = ""

    @property
    def age(self) -> tuple[dt.date, dt.datetime, str]:
        """What versions are ordered by: the day, then when it was published."""
        return self.day, self.published_at, self.id

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "day": self.day.isoformat(),
            "content": self.content,
            "rows": self.rows,
            "keys": self.keys.to_json(),
            "bundle_id": self.bundle_id,
            "published_at": self.published_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            **({"canary_id": self.canary_id} if self.canary_id else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Version:
        try:
            return cls(
                id=value["id"],
                day=dt.date.fromisoformat(value["day"]),
                content=value["content"],
                rows=value["rows"],
                keys=KeySet.from_json(value["keys"]),
                bundle_id=value["bundle_id"],
                published_at=dt.datetime.fromisoformat(value["published_at"]),
                expires_at=dt.datetime.fromisoformat(value["expires_at"]),
                canary_id=value.get("canary_id", ""),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(
                f"an online version lacks or bends {error}", remedy="publish the newest day again"
            ) from error


def version_of(record: PublishRecord, expires_at: dt.datetime) -> Version:
    """A version, of a name that no other has, for what a record says is published."""
    content = digest_of({"sources": dict(record.sources), "at": record.published_at.isoformat()})[:16]
    return Version(
        id=f"{record.day.isoformat()}-{content}-{uuid.uuid4().hex[:8]}",
        day=record.day,
        content=content,
        rows=record.rows,
        keys=record.keys,
        bundle_id=record.bundle_id,
        published_at=record.published_at,
        expires_at=expires_at,
        canary_id="" if record.canary is None else record.canary["bundle_id"],
    )


class Pace:
    """Keeps a load below so many rows a second. Loaders tell it of every piece, of `piece_rows` at most."""

    def __init__(
        self,
        rows_per_s: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.piece_rows = min(8192, rows_per_s or 8192)
        self._rows_per_s = rows_per_s
        self._clock, self._sleep = clock, sleep
        self._began: float | None = None
        self._rows = 0

    def loaded(self, rows: int) -> None:
        """So many more rows are in; waits where that was too quick."""
        if self._rows_per_s is None:
            return
        now = self._clock()
        self._began = now if self._began is None else self._began
        self._rows += rows
        early_s = self._began + self._rows / self._rows_per_s - now
        if early_s > 0:
            self._sleep(early_s)


@dataclass(frozen=True, kw_only=True)
class Held:
    """A whole version that a store has; `until` is when it goes, None for one that stays."""

    version: Version
    until: dt.datetime | None


@dataclass(frozen=True, kw_only=True)
class Switch:
    """What was live before a step, and after it."""

    before: Version | None
    after: Version | None


class OnlineStore(Protocol):
    """The versions of one profile's scores.

    `build` makes a version that is in `held` only once it is whole; what a killed build left is cleared by `sweep`.
    `advance` makes a version live unless the live one is of a newer day: comparing and setting is one step, whoever
    else does the same; `replace` makes `to` (or nothing) live only if `seen` is. A version that becomes live stays for
    good, and `retire`, which lets one go after `keep_s`, and `remove` leave the live one alone.
    `read` answers all ids from one version, the live one; ids that are not in it are not in the answer. None: nothing
    is live. `serves` is `live` once a look has shown that it is there: CorruptError where it is gone. Rows are in
    `buckets.ROW_SCHEMA`. A store that cannot be reached is StorageError, after bounded retries.
    """

    def where(self) -> str: ...

    def build(self, version: Version, rows: Iterable[pa.RecordBatch], pace: Pace) -> None: ...

    def held(self) -> list[Held]: ...

    def live(self) -> Version | None: ...

    def serves(self) -> Version | None: ...

    def scan(self, version: Version) -> Iterator[pa.RecordBatch]: ...

    def read(self, ids: Sequence[str]) -> tuple[Version, dict[str, Record]] | None: ...

    def advance(self, version: Version) -> Switch: ...

    def replace(self, seen: Version, to: Version | None) -> bool: ...

    def retire(self, version: Version, keep_s: int) -> None: ...

    def remove(self, version: Version) -> None: ...

    def sweep(self) -> None: ...
