"""The copy of a day on S3, proven: the object is fetched and every value of it read, its manifest held against it.

What could not be asked is `unreachable`, what is not there `missing`: neither is ever taken for right. The fetched
object lies under `_staging` while it is read, and nowhere afterwards.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

from profile_assets.errors import ProfileError, TransientError
from profile_assets.feature_store.bucket import Bucket, BucketManifest
from profile_assets.feature_store.rows import audit
from profile_assets.storage.atomic import own_file
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import file_digest
from profile_assets.storage.published import BUCKET, OFFLINE, PublishRecord, footer_record, read_record
from profile_assets.storage.withdrawals import withdrawal_of
from profile_assets.upkeep.findings import State


def copy_of(layout: Layout, day: dt.date, bucket: Bucket | None, told: PublishRecord | None) -> tuple[State, str]:
    """What lies on S3 of a day. `bucket` is the profile's, None for one without; `told` is what the table's file says,
    None where there is none or it cannot be believed: the record then stands for it.
    """
    record = read_record(layout, day)
    told = told or record
    target = None if record is None else record.targets.get(BUCKET)
    if target is not None and target.state == "pending":
        completes = f"`profile-assets publish {day}` completes it"
        return "wrong", f"pending{f' ({target.note})' if target.note else ''}; {completes}"
    if bucket is None:
        return "none", "" if target is None else f"{target.state}, not read: the profile has no export.bucket"
    try:
        if told is None or withdrawal_of(layout, told) is not None:
            return _nothing_there(bucket, day, is_withdrawn=told is not None)
        return _same_there(layout, bucket, told, was_brought=target is not None)
    except (ProfileError, TransientError) as error:
        return "unreachable", str(error)


def _nothing_there(bucket: Bucket, day: dt.date, *, is_withdrawn: bool) -> tuple[State, str]:
    if not bucket.has(day):
        return "none", "withdrawn, and gone from there" if is_withdrawn else ""
    if is_withdrawn:
        return "wrong", "it is withdrawn and still there; the same `withdraw` completes it"
    return "wrong", f"{bucket.part_name(day)} lies there, and the day was never published here"


def _same_there(layout: Layout, bucket: Bucket, told: PublishRecord, *, was_brought: bool) -> tuple[State, str]:
    again = f"`profile-assets publish {told.day}` brings it"
    manifest = bucket.manifest(told.day)
    with own_file(layout.scratch("verify"), f"{told.day}.parquet") as path:
        etag = bucket.fetch(told.day, path)
        if etag is None and manifest is None and not was_brought:
            return "none", f"never brought there; {again}"
        if etag is None:
            return "missing", f"{bucket.part_name(told.day)} is gone; {again}"
        if manifest is None:
            return "missing", f"{bucket.manifest_name(told.day)} is gone; {again}"
        return _compared(bucket, told, path, etag, manifest)


def _compared(
    bucket: Bucket, told: PublishRecord, path: Path, etag: str, manifest: BucketManifest
) -> tuple[State, str]:
    """The fetched object in `path` against its manifest, itself and the table's file."""
    if (manifest.part_etag, manifest.digest) != (etag, file_digest(path)):
        return "wrong", f"{bucket.part_name(told.day)} is another object than its manifest names"
    there = footer_record(path, told.day)
    audit(path, there)
    if _core(there) != _core(told):
        moments = (told.published_at.isoformat(), there.published_at.isoformat())
        return (
            "wrong",
            f"{told.rows:,} rows are published of {moments[0]}, {there.rows:,} rows lie there of {moments[1]}",
        )
    if _core(manifest.record) != _core(there):
        return "wrong", f"{bucket.manifest_name(told.day)} tells of another publication"
    return "right", f"{there.rows:,} rows in {bucket.where()}, every value and its manifest read again"


def _core(record: PublishRecord) -> PublishRecord:
    """What is published; the states of other targets move on after the file was written."""
    return dataclasses.replace(record, targets={OFFLINE: record.targets[OFFLINE]})
