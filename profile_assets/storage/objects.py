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
import io
import uuid
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
_NOT_OURS = (
    *("NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed", "NotImplemented"),
    *("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
)
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

    def etag(self, key: str) -> str | None:
        """The ETag of an object; None where there is none."""
        there = self._head(key)
        return None if there is None else str(there["ETag"])

    def fetch(self, key: str, target: Path) -> str:
        """Bring an object into a new file; gives its ETag. What the disk says against it is raised as it comes."""
        with s3_errors(self._at(key)):
            answer = self.client.get_object(Bucket=self.bucket, Key=self.full_key(key))
        with target.open("wb") as file, contextlib.closing(answer["Body"]) as body:
            blocks = body.iter_chunks(_BLOCK)
            while block := self._next(blocks, key):
                file.write(block)
        return str(answer["ETag"])

    def _next(self, blocks: Iterator[bytes], key: str) -> bytes:
        with s3_errors(self._at(key)):
            return next(blocks, b"")

    def get(self, key: str, *, start: int = 0) -> tuple[bytes, str]:
        """The bytes of an object from `start` on, and its ETag."""
        span = {"Range": f"bytes={start}-"} if start else {}
        with s3_errors(self._at(key)):
            answer = self.client.get_object(Bucket=self.bucket, Key=self.full_key(key), **span)
            with contextlib.closing(answer["Body"]) as body:
                return bytes(body.read()), str(answer["ETag"])

    def put(self, key: str, source: Path | bytes, *, expected: str | None) -> str:
        """Bring a file, or these bytes, there in place of the object whose ETag is `expected`, or of none; gives its
        ETag.
        """
        with _opened(source) as body:
            digest = hashlib.file_digest(body, "sha256").hexdigest()
            size = body.tell()
            if size > MAX_BYTES:
                raise ProfileError(
                    f"{self._at(key)} would have {size:,} bytes, S3 takes 5 GiB at once",
                    remedy="use more shards, or leave columns out",
                )
            body.seek(0)
            try:
                return self._put(key, body, digest, expected)
            except LockedError:
                there = self._head(key)
                if there is None or there.get("Metadata", {}).get(_DIGEST) != digest:
                    raise
                return str(there["ETag"])
            except FileNotFoundError as error:
                raise LockedError(
                    f"{self._at(key)} was removed meanwhile", remedy="run that again: it looks at what lies there"
                ) from error

    def _put(self, key: str, body: io.BufferedReader | io.BytesIO, digest: str, expected: str | None) -> str:
        told = {"ChecksumSHA256": base64.b64encode(bytes.fromhex(digest)).decode(), "Metadata": {_DIGEST: digest}}
        with s3_errors(self._at(key)):
            put = self.client.put_object(
                Bucket=self.bucket, Key=self.full_key(key), Body=body, **told, **_replacing(expected)
            )
        return str(put["ETag"])

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            with s3_errors(self._at(key)):
                return dict(self.client.head_object(Bucket=self.bucket, Key=self.full_key(key)))
        except FileNotFoundError:
            return None

    def require_conditions(self) -> None:
        """ProfileError where the server ignores what an upload expects: two writers would overrun each other there."""
        key = f"_probe/{uuid.uuid4()}"
        self.put(key, b"first", expected=None)
        try:
            self.put(key, b"second", expected=None)
        except LockedError:
            return
        finally:
            self.remove([key])
        raise ProfileError(
            f"the server of {self.url} knows no conditional writes (If-None-Match)",
            remedy="use one that does: AWS S3, MinIO, Ceph, R2",
        )

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


def _replacing(expected: str | None) -> dict[str, str]:
    """What an upload says of the object that it replaces: this very one, or none."""
    return {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}


@contextlib.contextmanager
def _opened(source: Path | bytes) -> Iterator[io.BufferedReader | io.BytesIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    else:
        with source.open("rb") as file:
            yield file


@contextlib.contextmanager
def s3_errors(where: str) -> Iterator[None]:
    """What boto3 raises, as errors of ours; FileNotFoundError for an object that is not there."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
    )

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
    except ParamValidationError as error:
        raise ProfileError(f"{where} is no place on S3: {error}", remedy="correct its URL") from error
    except (BotoCoreError, OSError) as error:
        raise StorageError(f"{where}: {error}", remedy="see that S3 is up, then try again") from error
