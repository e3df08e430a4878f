"""The publish record, and the days that readers see."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import pyarrow as pa
import pytest

from profile_assets.errors import CorruptError
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.published import (
    FOOTER_KEY,
    PublishRecord,
    TargetState,
    published_days,
    read_part_record,
    read_record,
    write_record,
)

DAY = dt.date(2026, 1, 5)
AT = dt.datetime(2026, 1, 6, 2, 0, 0, 123456, tzinfo=dt.UTC)


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path, name="purchase_30d")


def record_of(day, **states):
    return PublishRecord(
        day=day,
        rows=2,
        keys=KeySet(count=2, md5_sum=7),
        verdict_digest="v",
        sources={"raw_users": "r"},
        bundle_id="b-1",
        null_rates={"age": 0.25},
        targets={name: TargetState(state=state, at=AT) for name, state in (states or {"offline": "done"}).items()},
    )


def write_part(layout, day, footer):
    path = layout.offline_part(day)
    path.parent.mkdir(parents=True)
    with ParquetSink(path, pa.schema([("user_id", pa.string())]), footer=footer) as sink:
        sink.write(pa.table({"user_id": ["a", "b"]}))
    return path


def test_a_day_without_a_record_has_none(layout):
    assert read_record(layout, DAY) is None
    assert read_part_record(layout, DAY) is None
    assert published_days(layout) == []


def test_a_record_comes_back_as_it_was_written(layout):
    record = record_of(DAY, offline="done", online="pending")
    write_record(layout, record)
    assert read_record(layout, DAY) == record


def test_the_footer_of_the_published_file_gives_the_record(layout):
    record = record_of(DAY)
    write_part(layout, DAY, {FOOTER_KEY: json.dumps(record.to_json())})
    assert read_part_record(layout, DAY) == record


def test_published_days_are_those_that_readers_see_whatever_the_records_say(layout):
    days = [DAY + dt.timedelta(days=n) for n in range(3)]
    for day in (days[2], days[0]):
        write_part(layout, day, {})
    write_record(layout, record_of(days[1]))
    assert published_days(layout) == [days[0], days[2]]


def test_a_record_under_the_name_of_another_day_is_an_error(layout):
    write_record(layout, record_of(DAY))
    other = DAY + dt.timedelta(days=1)
    layout.publish_record(other).write_bytes(layout.publish_record(DAY).read_bytes())
    with pytest.raises(CorruptError, match="speaks of 2026-01-05"):
        read_record(layout, other)


@pytest.mark.parametrize("change", [{"targets": {"offline": {"state": "dune", "at": "x"}}}, {"targets": 1}, {"day": 3}])
def test_a_bent_record_is_an_error_and_never_an_absence(layout, change):
    write_record(layout, record_of(DAY))
    path = layout.publish_record(DAY)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptError):
        read_record(layout, DAY)


@pytest.mark.parametrize("footer", [{}, {FOOTER_KEY: "{"}, {FOOTER_KEY: "[]"}, {FOOTER_KEY: "{}"}])
def test_a_foreign_file_in_the_table_is_an_error(layout, footer):
    path = write_part(layout, DAY, footer)
    with pytest.raises(CorruptError, match=path.name):
        read_part_record(layout, DAY)


def test_a_record_is_not_changed_by_reading_and_writing_it_again(layout):
    write_record(layout, record_of(DAY))
    before = layout.publish_record(DAY).read_bytes()
    write_record(layout, dataclasses.replace(read_record(layout, DAY)))
    assert layout.publish_record(DAY).read_bytes() == before
