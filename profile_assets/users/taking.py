"""A day's source, taken for reading, whatever kind of source it is; and whether it is there and what it holds.

Files are read where they lie. The rows of a query are copied first, in one snapshot of the database, and read from
the copy, as often as need be; the copy goes when the reading is over.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from profile_assets.storage.records import Manifest
from profile_assets.users.contract import Contract
from profile_assets.users.query import copied, count_day, digest_of_query
from profile_assets.users.source import SourceDay, SourceSettings, find_day, list_day, not_ready


@contextlib.contextmanager
def taken(settings: SourceSettings, contract: Contract, day: dt.date) -> Iterator[SourceDay]:
    """The day, to be read while this is entered. Raises SourceError where it is absent or not ready."""
    if settings.sql is None:
        yield find_day(settings, day)
    else:
        with copied(settings.sql, contract, day) as found:
            yield found


def source_digest(settings: SourceSettings, contract: Contract, day: dt.date) -> str:
    """The digest that `taken` would give, nothing written. Everything of the day is read for it."""
    if settings.sql is None:
        return find_day(settings, day).digest
    return digest_of_query(settings.sql, contract, day)


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A day's source, looked at and not read: `digest` tells whether it moved, `waits_for` why it cannot be read yet,
    in words that follow "the source"; None where it can.
    """

    digest: str
    waits_for: str | None


def sighted(settings: SourceSettings, day: dt.date, now: dt.datetime) -> Sighting:
    """How the day's source looks at `now`, an aware moment. What a query gives is told apart by its number of rows."""
    if settings.sql is not None:
        rows = count_day(settings.sql, day)
        return Sighting(digest=f"query of {rows} rows", waits_for=None if rows else "has no rows")
    listing = list_day(settings, day)
    waits_for = not_ready(settings, listing, now) or (None if listing.files else "has no files")
    return Sighting(digest=listing.digest, waits_for=waits_for)


Change = Literal["same", "restated", "gone", "not ready", "another contract"]


def change_of(settings: SourceSettings, contract: Contract, day: dt.date, landed: Manifest, now: dt.datetime) -> Change:
    """What became of a day's source since it `landed`. Files are read only where their listing is another."""
    if landed.made_from["contract"] != contract.digest:
        return "another contract"  # its digest covers only what was read then
    sighting = sighted(settings, day, now)
    if sighting.waits_for is not None:
        is_gone = settings.sql is not None or not list_day(settings, day).files
        return "gone" if is_gone else "not ready"
    if settings.sql is None and sighting.digest == landed.notes.get("listing"):
        return "same"
    return "same" if source_digest(settings, contract, day) == landed.made_from["source"] else "restated"
