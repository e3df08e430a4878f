"""Objects below one prefix of a bucket on S3: each appears whole once its upload is complete, or not at all.

An upload names what it expects to replace (its ETag, or nothing), so that of two writers the second is refused and
not lost, and is proven by its sha256. One whose answer was lost on the way is sent again by the client and then finds
its own bytes there: that is no refusal.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from profile_assets.errors import LockedError, ProfileError, StorageError

MAX_BYTES = 5 * 1024**3
"""What S3 takes in one upload. Parts of several would have to be completed in one more step."""

_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_GONE = ("NoSuchKey", "404", "NotFound")
_NOT_OURS = ("NoSuchBucket", "AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_MAX_DELETED = 1000  # in one request
_BLOCK = 1 << 20
_DIGEST = "sha256"
"""Metadata of an object: the sha256 of its bytes. Not every server that speaks S3 tells the checksum that it kept."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What a listing says of an object; `at` is when it was uploaded."""

    etag: str
    size_bytes: int
    at: dt.datetime


class Objects:
    """The objects below `url` (s3://bucket/prefix). Nothing is asked of the server before the first call.

    Keys are given and told without the prefix. FileNotFoundError for an object that is not there, LockedError for an
    upload that was refused, StorageError where the server cannot be reached, ProfileError where it lets nobody in.
    """

    def __init__(self, url: str, make_client: Callable[[], Any]) -> None:
        self.url = url.rstrip("/")
        self.bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._make_client = make_client

    @cached_property
    def client(self) -> Any:
        return self._make_client()

    def full_key(self, key: str) -> str:
        return self._prefix + key

    def listed(self, below: str = "") -> dict[str, Listed]:
        """Every object whose key begins so."""
        found = {}
        with s3_errors(self.url):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.full_key(below)
            )
            for entry in (entry for page in pages for entry in page.get("Contents", ())):
                key = entry["Key"].removeprefix(self._prefix)
                found[key] = Listed(etag=entry["ETag"], size_bytes=entry["Size"], at=entry["LastModified"])
        return found

    def head(self, key: str) -> dict[str, Any] | None:
        """What the server says of an object; None where there is none."""
        try:
            with s3_errors(self._at(key)):
                return dict(self.client.head_object(Bucket=self.bucket, Key=self.full_key(key)))
        except FileNotFoundError:
            return None

    def fetch(self, key: str, target: Path) -> str:
        """Bring an object into a new file; gives its ETag."""
        with s3_errors(self._at(key)):
            answer = self.client.get_object(Bucket=self.bucket, Key=self.full_key(key))
            with target.open("wb") as file, contextlib.closing(answer["Body"]) as body:
                for block in body.iter_chunks(_BLOCK):
                    file.write(block)
        return str(answer["ETag"])

    def read(self, key: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes of an object, or those from `start` on and before `stop`."""
        span = {} if (start, stop) == (0, None) else {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"}
        with s3_errors(self._at(key)):
            answer = self.client.get_object(Bucket=self.bucket, Key=self.full_key(key), **span)
            with contextlib.closing(answer["Body"]) as body:
                return bytes(body.read())

    def put(self, key: str, source: Path, *, expected: str | None) -> str:
        """Bring a file there in place of the object whose ETag is `expected`, or of none; gives its ETag."""
        size, digest = source.stat().st_size, _digest_of(source)
        if size > MAX_BYTES:
            raise ProfileError(
                f"{source} has {size:,} bytes, S3 takes 5 GiB at once", remedy="use more shards, or leave columns out"
            )
        try:
            with s3_errors(self._at(key)), source.open("rb") as body:
                told = self.client.put_object(
                    Bucket=self.bucket,
                    Key=self.full_key(key),
                    Body=body,
                    ChecksumSHA256=base64.b64encode(bytes.fromhex(digest)).decode(),
                    Metadata={_DIGEST: digest},
                    **replacing(expected),
                )
            return str(told["ETag"])
        except LockedError:
            there = self.head(key)
            if there is None or there.get("Metadata", {}).get(_DIGEST) != digest:
                raise
            return str(there["ETag"])
        except FileNotFoundError as error:
            raise LockedError(
                f"{self._at(key)} was removed meanwhile", remedy="run that again: it looks at what lies there"
            ) from error

    def remove(self, keys: Iterable[str]) -> None:
        """Take objects out; those that are not there are no error."""
        left = [{"Key": self.full_key(key)} for key in keys]
        with s3_errors(self.url):
            for start in range(0, len(left), _MAX_DELETED):
                some = {"Objects": left[start : start + _MAX_DELETED], "Quiet": True}
                refused = self.client.delete_objects(Bucket=self.bucket, Delete=some).get("Errors", ())
                if refused:
                    raise StorageError(f"{self.url}: {refused[0]} was not removed", remedy="try again")

    def _at(self, key: str) -> str:
        return f"{self.url}/{key}"


def s3_client(endpoint: str | None = None) -> Any:
    """A client with the credentials, and unless it is given the endpoint, that the environment has for S3."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise ProfileError("S3 needs the package boto3", remedy="pip install 'profile-assets[s3]'") from error
    config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3, "mode": "standard"})
    return boto3.client("s3", endpoint_url=endpoint, config=config)


def replacing(expected: str | None) -> dict[str, str]:
    """What an upload says of the object that it replaces: this very one, or none."""
    return {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def s3_errors(where: str) -> Iterator[None]:
    """What boto3 raises, as errors of ours; FileNotFoundError for an object that is not there."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code"))
        if code in _GONE:
            raise FileNotFoundError(where) from error
        if code in _REFUSED:
            raise LockedError(
                f"{where}: another writer was quicker", remedy="run that again: it looks at what lies there"
            ) from error
        if code in _NOT_OURS:
            raise ProfileError(
                f"{where} cannot be used: {error}", remedy="correct its URL, or the credentials for S3"
            ) from error
        raise StorageError(f"{where}: {error}", remedy="see that S3 is up, then try again") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise ProfileError(
            f"{where}: {error}", remedy="give the credentials for S3: AWS_ACCESS_KEY_ID, a profile, or a role"
        ) from error
    except (BotoCoreError, OSError) as error:
        raise StorageError(f"{where}: {error}", remedy="see that S3 is up, then try again") from error
