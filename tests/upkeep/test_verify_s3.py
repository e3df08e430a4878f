"""The copy of a day on S3 is read again by `verify`, object and manifest, or said not to have been."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
from dataclasses import replace
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest

from profile_assets.feature_store.bucket import Bucket, open_bucket
from profile_assets.feature_store.settings import BucketSettings
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.quality.standing import standing
from profile_assets.storage.published import BUCKET, read_record, tell
from profile_assets.upkeep.days import day_states
from profile_assets.upkeep.verify import verify_day

DAY = dt.date(2026, 2, 27)
PART = f"ml/risk/scores/ds={DAY}/part-00000.parquet"
MANIFEST = f"ml/risk/manifests/{DAY}.json"


class There:
    """The bucket as anybody else can reach into it."""

    def __init__(self, settings: BucketSettings) -> None:
        self.settings = settings
        self._name = settings.url.removeprefix("s3://").partition("/")[0]
        self._client = boto3.client("s3", endpoint_url=settings.endpoint)
        self._client.create_bucket(Bucket=self._name)

    def get(self, key: str) -> bytes:
        return self._client.get_object(Bucket=self._name, Key=key)["Body"].read()

    def put(self, key: str, body: bytes) -> str:
        return self._client.put_object(Bucket=self._name, Key=key, Body=body)["ETag"]

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self._name, Key=key)

    def change_manifest(self, **changed: Any) -> None:
        self.put(MANIFEST, json.dumps({**json.loads(self.get(MANIFEST)), **changed}).encode())


@pytest.fixture
def there(s3_endpoint) -> There:
    return There(BucketSettings(url=f"s3://scores-{uuid.uuid4()}/ml", endpoint=s3_endpoint))


@pytest.fixture
def bucket(there, layout) -> Bucket:
    return open_bucket(there.settings, layout.name)


@pytest.fixture
def published(days, there):
    days.run(DAY)
    days.publish(DAY, bucket=there.settings)
    return days


def copy_of(layout, bucket) -> tuple[str, str]:
    proof = verify_day(layout, DAY, time_zone="UTC", bucket=bucket)
    (found,) = [one for one in proof.findings if one.part == "s3"]
    assert proof.is_right == (found.state in ("right", "none"))
    return found.state, found.detail


@pytest.mark.usefixtures("published")
def test_the_object_and_its_manifest_are_read_and_right(layout, bucket):
    assert copy_of(layout, bucket) == ("right", f"3 rows in {bucket.where()}, every value and its manifest read again")
    assert not any(layout.scratch("verify").iterdir())


@pytest.mark.usefixtures("published")
def test_one_changed_bit_of_the_object_is_wrong(layout, bucket, there):
    data = bytearray(there.get(PART))
    data[len(data) // 3] ^= 1
    there.put(PART, bytes(data))
    state, detail = copy_of(layout, bucket)
    assert (state, "another object than its manifest names" in detail) == ("wrong", True)


def test_an_earlier_publication_that_lies_there_is_wrong_although_its_manifest_agrees(published, layout, bucket):
    published.run(DAY, ["a", "b"])
    published.publish(DAY)
    state, detail = copy_of(layout, bucket)
    assert state == "wrong"
    assert "2 rows are published" in detail
    assert "3 rows lie there" in detail


@pytest.mark.usefixtures("published")
def test_an_object_written_by_others_is_wrong_although_its_manifest_agrees(layout, bucket, there, tmp_path):
    pq.write_table(pq.read_table(layout.offline_part(DAY)).slice(1).replace_schema_metadata(), tmp_path / "x.parquet")
    body = (tmp_path / "x.parquet").read_bytes()
    there.change_manifest(part_etag=there.put(PART, body), digest=hashlib.sha256(body).hexdigest())
    state, detail = copy_of(layout, bucket)
    assert (state, "was not written by a publication" in detail) == ("wrong", True)


@pytest.mark.usefixtures("published")
def test_a_manifest_that_tells_of_another_publication_is_wrong(layout, bucket, there):
    there.change_manifest(rows=4)
    assert copy_of(layout, bucket) == ("wrong", f"s3://{there._name}/{MANIFEST} tells of another publication")
    there.put(MANIFEST, b"{}")
    state, detail = copy_of(layout, bucket)
    assert (state, "lacks or bends" in detail) == ("wrong", True)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("key", [PART, MANIFEST])
def test_an_object_or_manifest_that_is_gone_is_missing(layout, bucket, there, key):
    there.delete(key)
    state, detail = copy_of(layout, bucket)
    assert (state, key in detail) == ("missing", True)
    assert f"`profile-assets publish {DAY}`" in detail


@pytest.mark.usefixtures("published")
def test_a_server_that_does_not_answer_is_unreachable_and_never_right(layout, there):
    away = open_bucket(replace(there.settings, endpoint="http://127.0.0.1:9"), layout.name)
    assert copy_of(layout, away)[0] == "unreachable"
    nowhere = open_bucket(replace(there.settings, url="s3://nobody-has-this-one"), layout.name)
    assert copy_of(layout, nowhere)[0] == "unreachable"


@pytest.mark.usefixtures("published")
def test_a_copy_without_a_bucket_in_the_profile_is_said_not_to_be_read(layout):
    state, detail = copy_of(layout, None)
    assert (state, "not read" in detail) == ("none", True)


def test_a_day_of_before_the_profile_had_a_bucket_is_said_not_to_be_there(days, layout, bucket):
    days.published(DAY)
    assert copy_of(layout, bucket) == ("none", f"never brought there; `profile-assets publish {DAY}` brings it")


def test_a_copy_that_is_pending_is_told(days, layout, bucket, now):
    days.published(DAY)
    tell(layout, read_record(layout, DAY), BUCKET, "pending", now)
    for one in (bucket, None):
        assert copy_of(layout, one) == ("wrong", f"pending; `profile-assets publish {DAY}` completes it")
    (state,) = day_states(layout, [DAY], standing(layout))
    assert (state.pending, state.to_json()["s3"]) == (("s3",), "pending")


@pytest.mark.usefixtures("published")
def test_a_withdrawn_day_that_is_still_there_is_wrong(layout, bucket, there, now):
    kept = there.get(PART)
    withdraw(layout, DAY, why="in cents", by="ada", now=now, others={"s3": bucket.remove})
    assert copy_of(layout, bucket) == ("none", "withdrawn, and gone from there")
    there.put(PART, kept)
    assert copy_of(layout, bucket) == ("wrong", "it is withdrawn and still there; the same `withdraw` completes it")


@pytest.mark.usefixtures("published")
def test_the_copy_of_a_day_whose_file_here_is_damaged_is_proven_by_the_record(layout, bucket):
    layout.offline_part(DAY).write_bytes(b"damaged")
    found = {one.part: one.state for one in verify_day(layout, DAY, time_zone="UTC", bucket=bucket).findings}
    assert (found["offline"], found["s3"]) == ("wrong", "right")


def test_a_day_there_that_nobody_published_here_is_wrong(layout, bucket, there):
    there.put(PART, b"anything")
    state, detail = copy_of(layout, bucket)
    assert (state, "was never published here" in detail) == ("wrong", True)
