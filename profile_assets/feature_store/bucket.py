"""The published table once more on S3, for readers who do not see this disk: one object a day, beside it its manifest.

    <url>/<name>/scores/ds=2026-01-05/part-00000.parquet     what readers open
    <url>/<name>/manifests/2026-01-05.json                   which publication that is, written after it

There is no rename on S3: an object appears whole once its upload is complete, and that is the commit. Every upload
names what it expects to replace (its ETag, or nothing), so that of two writers of a day the second is refused and not
lost. The store proves each upload by its sha256.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError, LockedError
from profile_assets.feature_store.settings import BucketSettings
from profile_assets.storage.layout import PART_FILE, day_of
from profile_assets.storage.objects import Objects, s3_client
from profile_assets.storage.parquet import file_digest
from profile_assets.storage.parts import PARTITION_COLUMN
from profile_assets.storage.published import PublishRecord
from profile_assets.storage.records import FORMAT


@dataclass(frozen=True, kw_only=True)
class BucketManifest:
    """Which publication lies there: its record, the sha256 of its file, and the object's ETag. `etag` is its own."""

    digest: str
    part_etag: str
    record: PublishRecord
    etag: str


class Bucket:
    """One profile's published days on S3, `objects` being those below its name."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def where(self) -> str:
        return f"{self._objects.url}/scores"

    def put(self, record: PublishRecord, part: Path) -> str:
        """Bring a published day there, unless it lies there already; gives where. LockedError where another writer
        was quicker, or holds a later publication of that day.
        """
        digest, known = file_digest(part), self.manifest(record.day)
        there = self._objects.etag(_part_key(record.day))
        if known is not None and (known.digest, known.part_etag) == (digest, there):
            return self.where()
        if known is not None and known.record.published_at > record.published_at:
            moment = known.record.published_at.isoformat()
            raise LockedError(
                f"{self.where()} has a publication of {record.day} of {moment}, which is newer",
                remedy="let one machine publish that day, or withdraw it there",
            )
        etag = self._objects.put(_part_key(record.day), part, expected=there)
        told = {"format": FORMAT, "digest": digest, "part_etag": etag, **record.to_json()}
        manifest = json.dumps(told, indent=1, sort_keys=True).encode()
        self._objects.put(_manifest_key(record.day), manifest, expected=None if known is None else known.etag)
        return self.where()

    def remove(self, day: dt.date) -> None:
        """Take a day out; one that is not there is no error. Its manifest goes last, so that it can be told again."""
        self._objects.remove([_part_key(day)])
        self._objects.remove([_manifest_key(day)])

    def days(self) -> list[dt.date]:
        """The days that readers see there, oldest first."""
        names = [key.split("/")[1:] for key in self._objects.listed("scores/")]
        found = (day_of(folder) for folder, *file in names if file == [PART_FILE])
        return sorted(day for day in found if day is not None)

    def manifest(self, day: dt.date) -> BucketManifest | None:
        """What is said of a day there; None where nothing is. CorruptError for what cannot be read."""
        try:
            text, etag = self._objects.get(_manifest_key(day))
        except FileNotFoundError:
            return None
        try:
            value = json.loads(text)
            record = PublishRecord.from_json(value)
            return BucketManifest(digest=value["digest"], part_etag=value["part_etag"], record=record, etag=etag)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(
                f"{self.manifest_name(day)} lacks or bends {error}",
                remedy=f"remove that object and publish {day} again",
            ) from error

    def has(self, day: dt.date) -> bool:
        """Whether readers see the day there."""
        return self._objects.etag(_part_key(day)) is not None

    def fetch(self, day: dt.date, path: Path) -> str | None:
        """Bring the object of a day into the file at `path`; its ETag, None where there is none."""
        try:
            return self._objects.fetch(_part_key(day), path)
        except FileNotFoundError:
            return None

    def part_name(self, day: dt.date) -> str:
        return f"{self._objects.url}/{_part_key(day)}"

    def manifest_name(self, day: dt.date) -> str:
        return f"{self._objects.url}/{_manifest_key(day)}"


def open_bucket(settings: BucketSettings, name: str, client: Any = None) -> Bucket:
    """The bucket of a profile, with the credentials that the environment has for S3; `client` is used in place of a
    new one.
    """

    def make_client() -> Any:
        return s3_client(settings.endpoint) if client is None else client

    return Bucket(Objects(f"{settings.url.rstrip('/')}/{name}", make_client))


def _part_key(day: dt.date) -> str:
    return f"scores/{PARTITION_COLUMN}={day.isoformat()}/{PART_FILE}"


def _manifest_key(day: dt.date) -> str:
    return f"manifests/{day.isoformat()}.json"
