"""The published table once more on S3, for readers who do not see this disk: one object a day, beside it its manifest.

    <url>/<name>/scores/ds=2026-01-05/part-00000.parquet     what readers open
    <url>/<name>/manifests/2026-01-05.json                   which publication that is, written after it

There is no rename on S3: an object appears whole once its upload is complete, and that is the commit. Every upload
names what it expects to replace (its ETag, or nothing), so that of two writers of a day the second is refused and not
lost. The store proves each upload by its sha256.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError, LockedError, ProfileError, StorageError
from profile_assets.feature_store.settings import BucketSettings
from profile_assets.storage.layout import PART_FILE, day_of
from profile_assets.storage.parquet import file_digest
from profile_assets.storage.parts import PARTITION_COLUMN
from profile_assets.storage.published import PublishRecord
from profile_assets.storage.records import FORMAT

MAX_BYTES = 5 * 1024**3
"""What S3 takes in one upload. Parts of several would have to be completed in one more step."""

_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_GONE = ("NoSuchKey", "404", "NotFound")


@dataclass(frozen=True, kw_only=True)
class BucketManifest:
    """Which publication lies there: its record, the sha256 of its file, and the object's ETag. `etag` is its own."""

    digest: str
    part_etag: str
    record: PublishRecord
    etag: str


class Bucket:
    """One profile's published days on S3. `client` is boto3's. Nothing is asked of the server before the first call."""

    def __init__(self, client: Any, settings: BucketSettings, name: str) -> None:
        bucket, _, prefix = settings.url.removeprefix("s3://").partition("/")
        self._client, self._bucket = client, bucket
        self._prefix = "/".join(part for part in (prefix.strip("/"), name) if part)

    def where(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}/scores"

    def put(self, record: PublishRecord, part: Path) -> str:
        """Bring a published day there, unless it lies there already; gives where. LockedError where another writer
        was quicker, or holds a later publication of that day.
        """
        digest, size = file_digest(part), part.stat().st_size
        if size > MAX_BYTES:
            raise ProfileError(f"{part} has {size:,} bytes, S3 takes 5 GiB at once", remedy="leave columns out of it")
        key, known = self._part_key(record.day), self.manifest(record.day)
        there = self._head(key)
        if known is not None and there is not None and (known.digest, known.part_etag) == (digest, there["ETag"]):
            return self.where()
        if known is not None and known.record.published_at > record.published_at:
            moment = known.record.published_at.isoformat()
            raise LockedError(
                f"{self.where()} has a publication of {record.day} of {moment}, which is newer",
                remedy="let one machine publish that day, or withdraw it there",
            )
        etag = self._upload(key, part, digest, None if there is None else there["ETag"])
        self._write_manifest(record, digest, etag, None if known is None else known.etag)
        return self.where()

    def remove(self, day: dt.date) -> None:
        """Take a day out; one that is not there is no error. Its manifest goes last, so that it can be told again."""
        with s3_errors(self.where()):
            for key in (self._part_key(day), self._manifest_key(day)):
                self._client.delete_object(Bucket=self._bucket, Key=key)

    def days(self) -> list[dt.date]:
        """The days that readers see there, oldest first."""
        start, found = f"{self._prefix}/scores/", []
        with s3_errors(self.where()):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=start):
                found += [entry["Key"] for entry in page.get("Contents", ())]
        folders = [key.removeprefix(start).partition("/") for key in found]
        return sorted(day for folder, _, file in folders if file == PART_FILE and (day := day_of(folder)) is not None)

    def manifest(self, day: dt.date) -> BucketManifest | None:
        """What is said of a day there; None where nothing is. CorruptError for what cannot be read."""
        key = self._manifest_key(day)
        try:
            with s3_errors(self.where()):
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
                text = answer["Body"].read()
        except FileNotFoundError:
            return None
        try:
            value = json.loads(text)
            return BucketManifest(
                digest=value["digest"],
                part_etag=value["part_etag"],
                record=PublishRecord.from_json(value),
                etag=answer["ETag"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(
                f"{self.manifest_name(day)} lacks or bends {error}",
                remedy=f"remove that object and publish {day} again",
            ) from error

    def has(self, day: dt.date) -> bool:
        """Whether readers see the day there."""
        return self._head(self._part_key(day)) is not None

    def fetch(self, day: dt.date, path: Path) -> str | None:
        """Bring the object of a day into the file at `path`; its ETag, None where there is none."""
        try:
            with s3_errors(self.where()):
                answer = self._client.get_object(Bucket=self._bucket, Key=self._part_key(day))
                with path.open("wb") as file:
                    for chunk in answer["Body"].iter_chunks(8 * 1024**2):
                        file.write(chunk)
        except FileNotFoundError:
            return None
        return str(answer["ETag"])

    def part_name(self, day: dt.date) -> str:
        return f"s3://{self._bucket}/{self._part_key(day)}"

    def manifest_name(self, day: dt.date) -> str:
        return f"s3://{self._bucket}/{self._manifest_key(day)}"

    def _upload(self, key: str, part: Path, digest: str, expected: str | None) -> str:
        checksum = base64.b64encode(bytes.fromhex(digest)).decode()
        with s3_errors(self.where()), part.open("rb") as body:
            told = self._client.put_object(
                Bucket=self._bucket, Key=key, Body=body, ChecksumSHA256=checksum, **_replacing(expected)
            )
        return str(told["ETag"])

    def _write_manifest(self, record: PublishRecord, digest: str, part_etag: str, expected: str | None) -> None:
        told = {"format": FORMAT, "digest": digest, "part_etag": part_etag, **record.to_json()}
        body = json.dumps(told, indent=1, sort_keys=True).encode()
        with s3_errors(self.where()):
            self._client.put_object(
                Bucket=self._bucket, Key=self._manifest_key(record.day), Body=body, **_replacing(expected)
            )

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            with s3_errors(self.where()):
                return dict(self._client.head_object(Bucket=self._bucket, Key=key))
        except FileNotFoundError:
            return None

    def _part_key(self, day: dt.date) -> str:
        return f"{self._prefix}/scores/{PARTITION_COLUMN}={day.isoformat()}/{PART_FILE}"

    def _manifest_key(self, day: dt.date) -> str:
        return f"{self._prefix}/manifests/{day.isoformat()}.json"


def open_bucket(settings: BucketSettings, name: str) -> Bucket:
    """The bucket of a profile, with the credentials that the environment has for S3."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise ProfileError(
            "a table on S3 needs the package boto3", remedy="pip install 'profile-assets[s3]'"
        ) from error
    config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3, "mode": "standard"})
    client = boto3.client("s3", endpoint_url=settings.endpoint, config=config)
    return Bucket(client, settings, name)


def _replacing(expected: str | None) -> dict[str, str]:
    """What an upload says of the object that it replaces: this very one, or none."""
    return {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}


@contextlib.contextmanager
def s3_errors(where: str) -> Iterator[None]:
    """What boto3 raises, as errors of ours; FileNotFoundError for an object that is not there."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code"))
        if code in _GONE:
            raise FileNotFoundError(where) from error
        if code in _REFUSED:
            raise LockedError(
                f"{where}: another writer was quicker", remedy="run the publication again: it looks at what lies there"
            ) from error
        if code in ("NoSuchBucket", "AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch"):
            raise ProfileError(
                f"{where} cannot be used: {error}", remedy="correct export.bucket, or the credentials for S3"
            ) from error
        raise StorageError(f"{where}: {error}", remedy="see that S3 is up, then publish again") from error
    except (BotoCoreError, OSError) as error:
        raise StorageError(f"{where}: {error}", remedy="see that S3 is up, then publish again") from error
