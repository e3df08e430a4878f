"""The publication: what it refuses, what it leaves alone, and what readers see when it dies."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import AccountingError, CorruptError, DataError, DiskError, GateError, PermanentError
from profile_assets.feature_store import rows as table_rows
from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.read import newest_day, read_day
from profile_assets.quality.gates import judge_export
from profile_assets.storage.atomic import replace_file
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS
from profile_assets.storage.parquet import ParquetSink, read_footer
from profile_assets.storage.published import (
    FOOTER_KEY,
    TargetState,
    footer_record,
    published_days,
    read_part_record,
    read_record,
    write_record,
)
from profile_assets.storage.verdicts import read_verdict

IDS = ["a", "b", "c", "d", "e"]
HOUR = dt.timedelta(hours=1)
NOW = dt.datetime(2026, 1, 6, 2, 30, 0, 123456, tzinfo=dt.UTC)


def snapshot(folder):
    """Every file below a folder: its inode, time and bytes."""
    return {
        path.relative_to(folder): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_day_that_passed_is_published_with_its_record(pipeline, layout, day):
    raw, shards, scores = pipeline.run(day, IDS)
    record = pipeline.publish(day)
    assert record == read_record(layout, day) == read_part_record(layout, day)
    assert (record.day, record.rows, record.keys, record.bundle_id) == (day, 5, scores.keys, "b-1")
    assert record.sources == {RAW_USERS: raw.digest, USER_SHARDS: shards.digest, USER_SCORES: scores.digest}
    assert record.verdict_digest == read_verdict(layout, day).digest
    assert record.null_rates == {"age": 0.25}
    assert record.targets == {"offline": TargetState(state="done", at=NOW)}
    assert published_days(layout) == [day]
    assert sorted(read_day(layout, day)["user_id"].to_pylist()) == IDS


def test_a_day_without_a_verdict_is_refused(pipeline, layout, day):
    pipeline.run(day, IDS)
    layout.verdict(day).unlink()
    with pytest.raises(GateError, match="2026-01-05 is not to be published: raw_users was never judged"):
        pipeline.publish(day)
    assert newest_day(layout) is None
    assert not layout.offline.exists()


@pytest.mark.parametrize("result", ["fail", "not_evaluated"])
def test_a_day_that_failed_in_an_earlier_run_is_refused_by_a_later_one(pipeline, layout, day, result):
    raw, shards, scores = pipeline.run(day, IDS)
    pipeline.judge(day, raw, shards, scores, null_rates=result)
    with pytest.raises(GateError, match="null_rates"):
        pipeline.publish(day)
    assert not layout.offline.exists()


def test_a_verdict_over_other_data_is_worth_nothing_and_every_reason_is_told(pipeline, day):
    raw, shards, _ = pipeline.run(day, IDS)
    pipeline.judge(day, raw, min_rows="fail")
    pipeline.score(day, shards, IDS, bundle="b-2")
    with pytest.raises(GateError, match=r"min_rows.*user_scores was judged as"):
        pipeline.publish(day)


def test_a_stage_that_is_not_there_is_named(pipeline, day):
    pipeline.judge(day, pipeline.land(day, IDS))
    with pytest.raises(DataError, match="user_shards of 2026-01-05"):
        pipeline.publish(day)


@pytest.mark.parametrize("stage", [RAW_USERS, USER_SHARDS, USER_SCORES])
def test_one_changed_byte_in_any_stage_is_refused(pipeline, layout, day, stage):
    pipeline.run(day, IDS)
    path = sorted(layout.stage(stage, day).glob("*.parquet"))[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=path.name):
        pipeline.publish(day)


@pytest.mark.parametrize("scored", [["a", "a", "c", "c", "e"], ["a", "b", "c", "d"], [*IDS, "f"], []])
def test_scores_of_other_users_are_refused_even_where_the_gate_said_pass(pipeline, layout, day, scored):
    raw = pipeline.land(day, IDS)
    shards = pipeline.split(day, raw, IDS)
    pipeline.judge(day, raw, shards, pipeline.score(day, shards, scored))
    with pytest.raises(AccountingError, match="user_scores holds"):
        pipeline.publish(day)
    assert not layout.offline.exists()


def test_a_write_that_doubles_as_many_rows_as_it_loses_publishes_nothing(pipeline, layout, day, monkeypatch):
    real = table_rows._row_batch

    def forgetful(*arguments):
        rows = real(*arguments)
        return rows.take(pa.array([1, *range(1, rows.num_rows)]))

    monkeypatch.setattr(table_rows, "_row_batch", forgetful)
    pipeline.run(day, IDS)
    with pytest.raises(AccountingError, match="holds 5 users, 5 were to be published, or they are not the same users"):
        pipeline.publish(day)
    assert not layout.offline.exists()


def test_stages_that_were_not_made_from_each_other_are_refused(pipeline, day):
    raw, shards, _ = pipeline.run(day, IDS)
    other = pipeline.split(day, raw, IDS[::-1])
    assert other.digest != shards.digest
    pipeline.judge(day, other)
    scores = pipeline.score(day, shards, IDS)
    pipeline.judge(day, scores)
    with pytest.raises(AccountingError, match="user_scores was made from another version of user_shards"):
        pipeline.publish(day)


def test_a_stage_copied_from_another_day_is_refused(pipeline, layout, day):
    other = day - dt.timedelta(days=1)
    raw, shards, scores = pipeline.run(other, IDS)
    for stage in (RAW_USERS, USER_SHARDS, USER_SCORES):
        folder = layout.stage(stage, day)
        folder.mkdir(parents=True)
        for path in layout.stage(stage, other).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
    pipeline.judge(day, raw, shards, scores)
    with pytest.raises(CorruptError, match="raw_users/day=2026-01-05 is that of raw_users of 2026-01-04"):
        pipeline.publish(day)


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused_even_where_the_gate_said_pass(pipeline, layout, day, odd):
    pipeline.run(day, IDS, values=[0.1, 0.2, odd, 0.4, 0.5])
    with pytest.raises(DataError, match="score"):
        pipeline.publish(day)
    assert not layout.offline.exists()


def test_scores_of_two_bundles_in_one_day_are_refused(pipeline, day):
    pipeline.run(day, IDS, bundles=["b-1", "b-1", "b-2", "b-1", "b-1"])
    with pytest.raises(DataError, match="b-2"):
        pipeline.publish(day)


def test_the_same_day_unchanged_again_rewrites_nothing(pipeline, layout, day):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    before = snapshot(layout.home / "feature_store")
    assert pipeline.publish(day, now=NOW + HOUR) == first
    assert snapshot(layout.home / "feature_store") == before


def test_the_same_data_judged_again_is_still_the_same_day(pipeline, day):
    manifests = pipeline.run(day, IDS)
    first = pipeline.publish(day)
    pipeline.judge(day, *manifests, row_count_change="no_baseline")
    assert pipeline.publish(day, now=NOW + HOUR) == first


def test_a_published_day_that_fails_when_judged_again_stays_as_it_is_and_is_refused(pipeline, layout, day):
    raw, _, _ = pipeline.run(day, IDS)
    pipeline.publish(day)
    before = snapshot(layout.home / "feature_store")
    pipeline.judge(day, raw, min_rows="fail")
    with pytest.raises(GateError, match="min_rows"):
        pipeline.publish(day)
    assert snapshot(layout.home / "feature_store") == before


def test_a_changed_day_replaces_its_rows_and_leaves_no_row_of_the_old(pipeline, layout, day):
    pipeline.run(day, IDS)
    pipeline.publish(day)
    pipeline.run(day, ["x"], bundle="b-2")
    record = pipeline.publish(day, now=NOW + HOUR)
    assert read_day(layout, day)["user_id"].to_pylist() == ["x"]
    assert (record.bundle_id, record.targets["offline"].at) == ("b-2", NOW + HOUR)
    assert [path.name for path in layout.offline.rglob("*.parquet")] == ["part-00000.parquet"]


def test_publishing_an_old_day_touches_no_other_and_is_not_the_newest(pipeline, layout, day):
    old = day - dt.timedelta(days=30)
    for one in (old, day):
        pipeline.run(one, IDS)
    pipeline.publish(day)
    before = snapshot(layout.offline_part(day).parent)
    pipeline.publish(old, now=NOW + HOUR)
    assert snapshot(layout.offline_part(day).parent) == before
    assert (newest_day(layout), published_days(layout)) == (day, [old, day])


def test_killed_between_rename_and_record_the_record_is_rolled_forward(pipeline, layout, day):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    before = snapshot(layout.offline)
    layout.publish_record(day).unlink()
    assert pipeline.publish(day, now=NOW + HOUR) == first
    assert read_record(layout, day) == first
    assert snapshot(layout.offline) == before


def test_killed_while_replacing_the_record_follows_the_file(pipeline, layout, day):
    pipeline.run(day, IDS)
    old = pipeline.publish(day)
    pipeline.run(day, ["x", "y"])
    new = pipeline.publish(day, now=NOW + HOUR)
    write_record(layout, old)
    assert pipeline.publish(day, now=NOW + 2 * HOUR) == new
    assert read_record(layout, day) == new


def test_the_record_is_rolled_forward_even_where_the_day_is_now_refused(pipeline, layout, day):
    raw, _, _ = pipeline.run(day, IDS)
    first = pipeline.publish(day)
    layout.publish_record(day).unlink()
    pipeline.judge(day, raw, min_rows="fail")
    with pytest.raises(GateError):
        pipeline.publish(day)
    assert read_record(layout, day) == first


def test_killed_before_the_rename_readers_see_the_old_day_and_nothing_is_left_over(pipeline, layout, day):
    pipeline.run(day, IDS)
    pipeline.publish(day)
    leftover = layout.staging("feature_store_export", day) / "half.parquet"
    leftover.write_bytes(b"PAR1 and no more")
    assert sorted(read_day(layout, day)["user_id"].to_pylist()) == IDS
    pipeline.run(day, ["x"])
    pipeline.publish(day)
    assert not leftover.exists()
    assert [path.name for path in layout.offline.rglob("*") if path.is_file()] == ["part-00000.parquet"]


def test_what_the_record_knows_of_other_targets_is_kept(pipeline, layout, day):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    online = TargetState(state="pending", at=NOW)
    both = dataclasses.replace(first, targets={**first.targets, "online": online})
    write_record(layout, both)
    assert pipeline.publish(day, now=NOW + HOUR) == both
    assert read_record(layout, day) == both


@pytest.mark.parametrize("kept_bytes", [-1, 8, 0])
def test_a_published_file_that_was_cut_is_published_again(pipeline, layout, day, kept_bytes):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    path = layout.offline_part(day)
    path.write_bytes(path.read_bytes()[:kept_bytes])
    record = pipeline.publish(day, now=NOW + HOUR)
    assert record.targets["offline"].at == NOW + HOUR
    assert (record.rows, record.keys) == (first.rows, first.keys)
    assert sorted(read_day(layout, day)["user_id"].to_pylist()) == IDS


@pytest.mark.parametrize("change", ["shifted", "swapped", "another row order"])
def test_a_published_file_rewritten_in_place_with_its_footer_is_published_again(pipeline, layout, day, change):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    wanted, path = read_day(layout, day, columns=["user_id", "score"]), layout.offline_part(day)
    rewrite(path, change)
    assert footer_record(path, day) == first
    (judged,) = judge_export(layout, day)
    assert (judged.result, judged.detail) == ("fail", "the published scores are not those that were given")
    again = pipeline.publish(day, now=NOW + HOUR)
    assert again.published_at > first.published_at
    assert again.rows_digest == first.rows_digest
    assert read_day(layout, day, columns=["user_id", "score"]).equals(wanted)
    assert [outcome.result for outcome in judge_export(layout, day)] == ["pass"]


def rewrite(path, change):
    """The published file with other scores; its ids and its whole footer as they were."""
    table, footer = pq.read_table(path), read_footer(path)
    if change == "another row order":
        table = table.take([1, 0, *range(2, len(table))])
    else:
        scores = table["score"].to_pylist()
        scores[:2] = [scores[0] + 0.001, scores[1]] if change == "shifted" else scores[1::-1]
        table = table.set_column(1, "score", pa.array(scores, pa.float32()))
    with ParquetSink(path, table.schema, footer=footer) as sink:
        sink.write(table)


def test_a_day_published_before_rows_had_a_digest_is_published_again(pipeline, layout, day):
    pipeline.run(day, IDS)
    first, path = pipeline.publish(day), layout.offline_part(day)
    table = pq.read_table(path).replace_schema_metadata()
    told = {name: one for name, one in first.to_json().items() if name != "rows_digest"}
    with ParquetSink(path, table.schema, footer={FOOTER_KEY: json.dumps(told)}) as sink:
        sink.write(table)
    assert pipeline.publish(day, now=NOW + HOUR).rows_digest == first.rows_digest


def test_a_record_that_cannot_be_read_is_written_again_from_the_file(pipeline, layout, day):
    pipeline.run(day, IDS)
    first = pipeline.publish(day)
    layout.publish_record(day).write_text(json.dumps({"format": 1}))
    assert pipeline.publish(day, now=NOW + HOUR) == first
    assert read_record(layout, day) == first


def test_a_day_whose_file_was_removed_is_published_again(pipeline, layout, day):
    pipeline.run(day, IDS)
    pipeline.publish(day)
    layout.offline_part(day).unlink()
    assert pipeline.publish(day, now=NOW + HOUR).targets["offline"].at == NOW + HOUR


def test_two_publications_of_one_day_at_once_give_one_result(pipeline, layout, day):
    pipeline.run(day, IDS)
    with ThreadPoolExecutor(2) as pool:
        nows = [NOW, NOW + HOUR]
        first, second = pool.map(lambda now: pipeline.publish(day, now=now), nows)
    assert first == second == read_record(layout, day) == read_part_record(layout, day)


def test_a_reader_sees_a_whole_day_while_it_is_replaced(pipeline, layout, day):
    """Two versions of the day take turns under the reader; each has its own size, bundle and time of publication."""
    parts = []
    for bundle, ids in (("b-1", [f"u{n}" for n in range(3000)]), ("b-2", [f"u{n}" for n in range(2000)])):
        pipeline.run(day, ids, bundle=bundle)
        pipeline.publish(day)
        parts.append(layout.offline_part(day).read_bytes())
    is_over = threading.Event()

    def read_on():
        seen = set()
        while not is_over.is_set():
            table = read_day(layout, day)
            bundles = table["bundle_id"].unique().to_pylist()
            seen.add((table.num_rows, *bundles))
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read_on) for _ in range(2)]
        for turn in range(200):
            staged = layout.scratch(f"turn-{turn}.parquet")
            staged.write_bytes(parts[turn % 2])
            replace_file(staged, layout.offline_part(day))
        is_over.set()
        seen = set().union(*(reader.result() for reader in readers))
    assert seen <= {(3000, "b-1"), (2000, "b-2")}
    assert seen


def test_a_moment_without_a_zone_publishes_nothing(pipeline, layout, day):
    pipeline.run(day, IDS)
    with pytest.raises(PermanentError, match="has no time zone"):
        pipeline.publish(day, now=dt.datetime(2026, 1, 6))  # noqa: DTZ001
    assert not layout.offline.exists()


@pytest.mark.parametrize(
    ("day", "ends"),
    [
        (dt.date(2026, 1, 5), dt.datetime(2026, 1, 5, 23, tzinfo=dt.UTC)),
        (dt.date(2026, 3, 29), dt.datetime(2026, 3, 29, 22, tzinfo=dt.UTC)),  # a day of 23 hours
        (dt.date(2026, 10, 25), dt.datetime(2026, 10, 25, 23, tzinfo=dt.UTC)),  # a day of 25 hours
    ],
)
def test_the_event_timestamp_is_the_end_of_the_day_in_its_zone(pipeline, layout, day, ends):
    pipeline.run(day, IDS)
    pipeline.publish(day)
    table = read_day(layout, day)
    assert set(table["event_timestamp"].to_pylist()) == {ends}
    assert table.schema.field("event_timestamp").type == pa.timestamp("us", tz="UTC")
    assert set(table["published_at"].to_pylist()) == {NOW}


def test_the_moment_of_publication_is_taken_once_everything_was_looked_at(pipeline, day):
    raw, _, _ = pipeline.run(day, IDS)
    pipeline.judge(day, raw, min_rows="fail")
    clock = partial(pytest.fail, "the clock was asked before the day could be published")
    with pytest.raises(GateError):
        publish(pipeline.layout, day, time_zone="UTC", clock=clock)


def test_a_disk_without_room_for_the_table_is_said_before_anything_is_written(pipeline, layout, day, monkeypatch):
    pipeline.run(day, IDS)
    usage = shutil.disk_usage(layout.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1))
    with pytest.raises(DiskError, match=rf"the publication of {day} needs about [\d,]+ bytes, .* has 1 left"):
        pipeline.publish(day)
    assert not layout.offline.exists()
