"""The same source on S3, against a server that speaks its protocol, in this process."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import SourceError, StorageError
from profile_assets.users.land import land
from profile_assets.users.source import SourceSettings, filesystem, find_day

DAY = dt.date(2026, 1, 5)


@pytest.fixture
def table(s3_endpoint) -> SourceSettings:
    pafs.S3FileSystem(endpoint_override=s3_endpoint, allow_bucket_creation=True).create_dir("bucket")
    return SourceSettings(path="s3://bucket/users", format="parquet", s3_endpoint=s3_endpoint)


def put(settings: SourceSettings, name: str, content: bytes) -> None:
    with filesystem(settings).open_output_stream(f"bucket/users/day=2026-01-05/{name}") as stream:
        stream.write(content)


def parquet(**columns: list) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def test_a_day_on_s3_lands_like_any_other(table, bench, contract) -> None:
    put(table, "_SUCCESS", b"")
    put(table, "a.parquet", parquet(uid=["a", None], x=[1, 2]))
    staged = land(table, contract(x="int8"), DAY, bench.layout)
    assert pq.read_table(staged.folder / "users.parquet").to_pylist() == [{"user_id": "a", "x": 1}]
    assert staged.manifest.facts["sources"] == [{"file": "a.parquet", "rows": 2}]


def test_the_digest_follows_the_objects_tag(table) -> None:
    put(table, "a.parquet", b"one")
    first = find_day(table, DAY).digest
    put(table, "a.parquet", b"two")
    assert find_day(table, DAY).digest != first


def test_an_absent_day_and_an_absent_bucket_are_the_sources_fault(table) -> None:
    with pytest.raises(SourceError, match="2026-01-06"):
        find_day(table, dt.date(2026, 1, 6))
    nowhere = SourceSettings(path="s3://nowhere/users", format="parquet", s3_endpoint=table.s3_endpoint)
    with pytest.raises(SourceError, match="nowhere"):
        find_day(nowhere, DAY)


def test_a_store_that_does_not_answer_is_worth_another_try(table) -> None:
    silent = SourceSettings(path=table.path, format="parquet", s3_endpoint="http://127.0.0.1:9")
    with pytest.raises(StorageError, match="NETWORK_CONNECTION"):
        find_day(silent, DAY)
