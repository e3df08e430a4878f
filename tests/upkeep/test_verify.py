"""A day is proven from the bytes on disk, or what is wrong with it is named."""

from __future__ import annotations

import datetime as dt
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import StorageError
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.quality.standing import standing
from profile_assets.storage.layout import QUARANTINE_FILE, RAW_USERS, USER_SCORES, USER_SHARDS
from profile_assets.storage.parquet import ParquetSink, read_footer
from profile_assets.storage.published import FOOTER_KEY
from profile_assets.storage.written import ScoreOrder
from profile_assets.upkeep.days import day_states
from profile_assets.upkeep.prune import prune
from profile_assets.upkeep.settings import Retention
from profile_assets.upkeep.verify import verify_day

DAY = dt.date(2026, 2, 27)


@pytest.fixture
def store(layout):
    return SqliteStore(layout)


def states(proof) -> dict[str, str]:
    return {finding.part: finding.state for finding in proof.findings}


def wrong(proof) -> dict[str, str]:
    return {finding.part: finding.detail for finding in proof.findings if finding.state == "wrong"}


def flip_last_byte(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def test_everything_of_a_published_day_is_right(days, layout, store):
    days.published(DAY)
    proof = verify_day(layout, DAY, time_zone="UTC", online=store)
    parts = ("quarantine", "links", "offline", "verdict", "origin", "rows", "online")
    assert states(proof) == {**dict.fromkeys((RAW_USERS, USER_SHARDS, USER_SCORES, *parts), "right"), "columns": "none"}
    assert proof.is_right


def test_a_day_that_was_never_run_is_not_right(layout):
    assert wrong(verify_day(layout, DAY, time_zone="UTC")) == {"day": f"there is nothing of {DAY}; it was never run"}


@pytest.mark.parametrize("stage", [RAW_USERS, USER_SHARDS, USER_SCORES])
def test_one_bit_of_any_file_is_found(days, layout, store, stage):
    days.published(DAY)
    path = sorted(layout.stage(stage, DAY).glob("*.parquet"))[-1]
    flip_last_byte(path)
    told = wrong(verify_day(layout, DAY, time_zone="UTC", online=store))
    assert f"{path.name} is not the file that its manifest describes" in told[stage]


def test_a_file_too_few_and_one_too_many_are_found(days, layout):
    days.published(DAY)
    folder = layout.stage(USER_SHARDS, DAY)
    first, last = sorted(folder.glob("*.parquet"))
    last.rename(folder / "other.parquet")
    told = wrong(verify_day(layout, DAY, time_zone="UTC"))[USER_SHARDS]
    assert f"{last.name} is gone" in told
    assert "other.parquet is not in its manifest" in told
    assert first.name not in told


def test_damage_in_the_table_the_quarantine_and_the_records_is_found(days, layout, store):
    days.published(DAY)
    flip_last_byte(layout.quarantine(DAY) / QUARANTINE_FILE)
    part = layout.offline_part(DAY)
    table = pq.ParquetFile(part).read()
    scores = [0.5, *table["score"].to_pylist()[1:]]
    changed = table.set_column(1, table.schema.field("score"), pa.array(scores, pa.float32()))
    footer = read_footer(part)
    with ParquetSink(part, changed.schema, footer=footer) as sink:
        sink.write(changed)
    assert set(wrong(verify_day(layout, DAY, time_zone="UTC", online=store))) == {"quarantine", "offline"}
    order, told = ScoreOrder(), json.loads(footer[FOOTER_KEY])
    order.add(changed["user_id"], changed["score"])
    with ParquetSink(
        part, changed.schema, footer={FOOTER_KEY: json.dumps({**told, "rows_digest": order.digest})}
    ) as sink:
        sink.write(changed)
    told = wrong(verify_day(layout, DAY, time_zone="UTC", online=store))
    assert set(told) == {"quarantine", "origin", "online"}
    assert told["origin"].startswith("the table has other scores than user_scores; ")
    flip_last_byte(part)
    assert "offline" in wrong(verify_day(layout, DAY, time_zone="UTC", online=store))
    layout.publish_record(DAY).write_text("{")
    layout.verdict(DAY).write_text("{")
    assert "cannot be read" in wrong(verify_day(layout, DAY, time_zone="UTC"))["offline"]


def test_a_day_that_vanished_from_the_table_is_wrong_and_a_withdrawn_one_is_not(days, layout, now):
    days.published(DAY)
    layout.offline_part(DAY).rename(layout.root / "away")
    assert "the table has no such day" in wrong(verify_day(layout, DAY, time_zone="UTC"))["offline"]
    (layout.root / "away").rename(layout.offline_part(DAY))
    withdraw(layout, DAY, why="in cents", by="ada", now=now)
    proof = verify_day(layout, DAY, time_zone="UTC")
    assert proof.is_right
    assert "withdrawn by ada: in cents" in [finding.detail for finding in proof.findings]


def test_a_day_made_again_and_not_published_is_told_apart_from_what_readers_see(days, layout):
    days.published(DAY)
    days.run(DAY, ["a", "b", "x"])
    told = wrong(verify_day(layout, DAY, time_zone="UTC"))
    assert "readers see another raw_users, user_shards, user_scores" in told["origin"]


def test_a_verdict_that_did_not_pass_is_told(days, layout):
    days.published(DAY)
    text = layout.verdict(DAY).read_text()
    layout.verdict(DAY).write_text(text.replace('"result": "pass"', '"result": "fail"', 1))
    assert "was changed" in wrong(verify_day(layout, DAY, time_zone="UTC"))["verdict"]
    days.judge(DAY, "fail")
    assert "is not to be published" in wrong(verify_day(layout, DAY, time_zone="UTC"))["verdict"]


def test_a_pruned_day_is_right_as_far_as_it_is_there(days, layout, store, now):
    for back in (40, 2, 1):
        days.published(now.date() - dt.timedelta(days=back))
    old = now.date() - dt.timedelta(days=40)
    prune(layout, Retention(), today=now.date(), now=now, busy={})
    proof = verify_day(layout, old, time_zone="UTC", online=store)
    assert proof.is_right
    found = states(proof)
    assert {found[name] for name in (RAW_USERS, USER_SHARDS, USER_SCORES, "quarantine", "origin")} == {"pruned"}
    assert found["offline"] == found["verdict"] == found["links"] == "right"


def test_lookups_that_cannot_be_asked_are_not_called_right(days, layout):
    class Away:
        def live(self):
            raise StorageError("it is away", remedy="wait")

    days.published(DAY)
    assert wrong(verify_day(layout, DAY, time_zone="UTC", online=Away())) == {"online": "it is away -> wait"}


def test_an_older_day_needs_no_lookups(days, layout, store):
    earlier = DAY - dt.timedelta(days=1)
    days.published(DAY, earlier)
    proof = verify_day(layout, earlier, time_zone="UTC", online=store)
    assert proof.is_right
    assert states(proof)["online"] == "none"


def test_a_manifest_of_another_day_is_found(days, layout):
    other = DAY - dt.timedelta(days=1)
    days.published(other, DAY)
    shutil.copy(layout.manifest(RAW_USERS, other), layout.manifest(RAW_USERS, DAY))
    assert str(other) in wrong(verify_day(layout, DAY, time_zone="UTC"))[RAW_USERS]


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 700])
def test_live_lookups_that_are_gone_or_damaged_are_wrong(days, layout, store, content):
    days.published(DAY)
    (file,) = (layout.online / "versions").glob("*.sqlite")
    file.unlink() if content is None else file.write_bytes(content)
    assert "which is damaged or gone" in wrong(verify_day(layout, DAY, time_zone="UTC", online=store))["online"]


def test_lookups_that_serve_nothing_though_the_record_says_done_are_wrong(days, layout, store):
    days.published(DAY)
    (layout.online / "live.json").unlink()
    (file,) = (layout.online / "versions").glob("*.sqlite")
    file.unlink()
    assert "lookups serve nothing" in wrong(verify_day(layout, DAY, time_zone="UTC", online=store))["online"]


def test_a_second_file_in_the_tables_folder_is_wrong(days, layout, store):
    days.published(DAY)
    part = layout.offline_part(DAY)
    shutil.copy(part, part.with_name("part-00001.parquet"))
    assert (
        "readers also see part-00001.parquet"
        in wrong(verify_day(layout, DAY, time_zone="UTC", online=store))["offline"]
    )


def test_odd_names_beside_the_records_stop_no_look(days, layout, now):
    days.published(DAY)
    withdraw(layout, DAY, why="wrong", by="ada", now=now)
    shutil.copy(layout.withdrawal(DAY), layout.withdrawals / f"{DAY}-old.json")
    shutil.copy(layout.withdrawal(DAY), layout.withdrawals / "2026-02-31.json")
    (state,) = day_states(layout, [DAY], standing(layout))
    assert state.withdrawn == "wrong"


# --- parts of a published day that were lost, and later runs of it -------------------------------------


def found(layout, part):
    return next(
        (one.state, one.detail) for one in verify_day(layout, DAY, time_zone="UTC").findings if one.part == part
    )


def test_a_lost_publish_record_is_told_as_that(days, layout):
    days.published(DAY)
    layout.publish_record(DAY).unlink()
    assert found(layout, "offline") == (
        "wrong",
        f"the table has it, and it has no publish record; `profile-assets publish {DAY}` mends it",
    )
    assert not status_of(layout).has_record
    days.publish(DAY)
    assert found(layout, "offline")[0] == "right"


def test_a_lost_verdict_is_told_with_what_judges_the_day_again(days, layout):
    days.published(DAY)
    layout.verdict(DAY).unlink()
    assert f"`profile-assets backfill {DAY} {DAY}`" in found(layout, "verdict")[1]
    assert status_of(layout).not_counted == "was never judged: it has no verdict"


@pytest.mark.parametrize("is_all", [True, False])
def test_scores_that_nobody_pruned_are_missing_and_not_called_pruned(days, layout, is_all):
    days.published(DAY)
    shutil.rmtree(layout.stage(USER_SCORES, DAY)) if is_all else layout.manifest(USER_SCORES, DAY).unlink()
    state, detail = found(layout, "origin")
    assert (state, detail.split(" ")[0]) == ("missing", USER_SCORES)
    assert f"`profile-assets backfill {DAY} {DAY} --again`" in detail
    assert status_of(layout).stages[USER_SCORES].presence == "gone"


@pytest.mark.parametrize("stages", [[RAW_USERS], [RAW_USERS, USER_SHARDS], [RAW_USERS, USER_SHARDS, USER_SCORES]])
def test_a_later_run_that_a_check_stopped_leaves_the_published_day_right_and_is_told(days, layout, store, stages):
    days.published(DAY)
    days.rerun_stopped(DAY, stages)
    proof = verify_day(layout, DAY, time_zone="UTC", online=store)
    assert proof.is_right, wrong(proof)
    state, detail = found(layout, "verdict")
    assert state == "noted"
    assert "what is published stands; a later run was stopped by" in detail
    assert f"; mend that and `profile-assets backfill {DAY} {DAY} --again`, or " in detail
    assert f"`profile-assets release {DAY} --check " in detail
    shown = status_of(layout)
    assert (shown.offline, shown.verdict, shown.is_rerun, shown.not_counted) == ("done", "stopped", True, None)


def test_damage_is_not_taken_for_what_a_later_run_left(days, layout):
    days.published(DAY)
    days.rerun_stopped(DAY, [RAW_USERS, USER_SHARDS])
    layout.manifest(USER_SCORES, DAY).unlink()
    assert not verify_day(layout, DAY, time_zone="UTC").is_right


def status_of(layout):
    (state,) = day_states(layout, [DAY], standing(layout))
    return state
