"""The table once more on S3, against a server that speaks its protocol: whole objects, no writer lost in silence."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import boto3
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import LockedError, ProfileError, StorageError
from profile_assets.feature_store.bucket import Bucket, open_bucket
from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.read import read_day
from profile_assets.feature_store.settings import BucketSettings, ExportSettings, OnlineSettings
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.storage.published import read_record

NOW = dt.datetime(2026, 1, 6, 2, 30, tzinfo=dt.UTC)
IDS = ["a", "b", "0", "-1", "Zoë"]


@pytest.fixture
def settings(s3_endpoint) -> BucketSettings:
    name = f"scores-{uuid.uuid4()}"
    boto3.client("s3", endpoint_url=s3_endpoint).create_bucket(Bucket=name)
    return BucketSettings(url=f"s3://{name}/ml/scores", endpoint=s3_endpoint)


@pytest.fixture
def export(settings) -> ExportSettings:
    return ExportSettings(bucket=settings)


@pytest.fixture
def bucket(settings, layout) -> Bucket:
    return open_bucket(settings, layout.name)


def read_there(settings: BucketSettings, name: str, day: dt.date) -> Any:
    """The day as any reader of S3 gets it."""
    system = pafs.S3FileSystem(endpoint_override=settings.endpoint)
    path = f"{settings.url.removeprefix('s3://')}/{name}/scores/ds={day}/part-00000.parquet"
    return pq.ParquetFile(system.open_input_file(path)).read().replace_schema_metadata()


def states(layout, day):
    return {name: target.state for name, target in read_record(layout, day).targets.items()}


class Meddling:
    """A client before whose next upload somebody else does something."""

    def __init__(self, client: Any, meddle: Any) -> None:
        self._client, self._meddle = client, meddle

    def put_object(self, **request: Any) -> Any:
        meddle, self._meddle = self._meddle, lambda: None
        meddle()
        return self._client.put_object(**request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def meddled(settings: BucketSettings, layout: Any, meddle: Any) -> Bucket:
    return open_bucket(settings, layout.name, Meddling(boto3.client("s3", endpoint_url=settings.endpoint), meddle))


def test_a_published_day_is_read_from_s3_as_from_the_disk(pipeline, layout, day, settings, export, bucket):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=export)
    assert states(layout, day) == {"offline": "done", "s3": "done"}
    assert read_there(settings, layout.name, day) == read_day(layout, day)
    assert bucket.days() == [day]


def test_publishing_again_uploads_nothing(pipeline, layout, day, settings, export):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=export)
    before = read_record(layout, day)

    def upload():
        raise AssertionError("nothing was to be uploaded")

    pipeline.publish(day, export=export, bucket=meddled(settings, layout, upload))
    assert read_record(layout, day) == before


def test_new_data_of_the_day_replaces_it(pipeline, layout, day, settings, export, bucket):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=export)
    pipeline.run(day, IDS[:3], values=[0.5, 0.25, 0.125])
    pipeline.publish(day, export=export, now=NOW + dt.timedelta(hours=1))
    assert read_there(settings, layout.name, day) == read_day(layout, day)
    assert bucket.days() == [day]


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_writers_of_a_day_the_slower_is_refused(pipeline, layout, day, settings, export, is_first):
    pipeline.run(day, IDS)
    if not is_first:
        pipeline.publish(day, export=export)
        pipeline.run(day, IDS[:4])
    key = f"ml/scores/{layout.name}/scores/ds={day}/part-00000.parquet"
    name = settings.url.removeprefix("s3://").partition("/")[0]
    client = boto3.client("s3", endpoint_url=settings.endpoint)
    other = meddled(settings, layout, lambda: client.put_object(Bucket=name, Key=key, Body=b"another writer's"))
    with pytest.raises(LockedError, match=r"on S3 it is pending: .*another writer was quicker"):
        pipeline.publish(day, export=export, bucket=other)
    assert states(layout, day) == {"offline": "done", "s3": "pending"}
    assert client.get_object(Bucket=name, Key=key)["Body"].read() == b"another writer's"
    pipeline.publish(day, export=export)
    assert read_there(settings, layout.name, day) == read_day(layout, day)


def test_a_writer_that_died_between_the_day_and_its_manifest_is_completed(pipeline, layout, day, settings, export):
    class Killed(BaseException):
        pass

    class Dying(Meddling):
        def put_object(self, **request: Any) -> Any:
            if request["Key"].endswith(".json"):
                raise Killed
            return self._client.put_object(**request)

    client = boto3.client("s3", endpoint_url=settings.endpoint)
    pipeline.run(day, IDS)
    with pytest.raises(Killed):
        pipeline.publish(day, export=export, bucket=open_bucket(settings, layout.name, Dying(client, None)))
    assert read_there(settings, layout.name, day) == read_day(layout, day)
    pipeline.publish(day, export=export)
    assert states(layout, day)["s3"] == "done"


def test_a_later_publication_there_is_not_overwritten_by_an_earlier_one(pipeline, layout, day, settings, export):
    pipeline.run(day, IDS)
    late = pipeline.publish_all(day, export=export, now=NOW + dt.timedelta(hours=1))
    pipeline.run(day, IDS[:3])
    with pytest.raises(LockedError, match="which is newer"):
        pipeline.publish(day, export=export, now=NOW)
    assert read_there(settings, layout.name, day).num_rows == late.record.rows


def test_while_s3_is_down_the_other_targets_are_served_and_the_day_is_completed_later(pipeline, layout, day, settings):
    pipeline.run(day, IDS)
    down = BucketSettings(url=settings.url, endpoint="http://127.0.0.1:9")
    both = ExportSettings(online=OnlineSettings(), bucket=down)
    with pytest.raises(StorageError, match=rf"on S3 it is pending.*`profile-assets publish {day}` completes it"):
        pipeline.publish(day, export=both)
    assert states(layout, day) == {"offline": "done", "online": "done", "s3": "pending"}
    pipeline.publish(day, export=ExportSettings(online=OnlineSettings(), bucket=settings))
    assert states(layout, day) == {"offline": "done", "online": "done", "s3": "done"}


def test_a_withdrawn_day_goes_from_s3_too(pipeline, layout, day, export, bucket):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=export)
    withdraw(layout, day, why="wrong", by="ada", now=NOW, others={"s3": bucket.remove})
    assert states(layout, day) == {"offline": "withdrawn", "s3": "withdrawn"}
    assert bucket.days() == []


def test_a_bucket_that_is_not_there_is_the_profiles_mistake(pipeline, layout, day, settings):
    pipeline.run(day, IDS)
    wrong = ExportSettings(bucket=BucketSettings(url="s3://nobody-has-this-one", endpoint=settings.endpoint))
    with pytest.raises(ProfileError, match=r"s3://nobody-has-this-one/purchase_30d/.* cannot be used"):
        publish(layout, day, time_zone="UTC", clock=lambda: NOW, export=wrong)
