"""The one judgement of freshness that check, alerts and command share: which days count, where, and why not."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace

import pytest

from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.storage.outcomes import Outcome, Release
from profile_assets.storage.published import read_record
from profile_assets.storage.verdicts import Verdict, write_verdict
from profile_assets.storage.withdrawals import Withdrawal, write_withdrawal

FIRST = dt.date(2026, 3, 1)
ONE_DAY = dt.timedelta(days=1)
START_BEYOND = dt.date(2062, 3, 1)
FAILED = Outcome(check="null_rates", result="fail", observed=0.2, limit=0.1, detail="balance")


@pytest.fixture
def judged(watch, at):
    """The judgement at five in the morning after so many days, the lookups included."""
    return lambda nights=1, **options: watch(has_lookups=True, **options).judge(at(FIRST + nights * ONE_DAY, 5))


def test_before_the_first_day_is_due_nothing_has_started(watch, at):
    found = watch(has_lookups=True).judge(at(FIRST + ONE_DAY, 3.9))
    assert (found.state, found.missing, found.late) == ("not_started", (), {})


def test_a_first_day_to_come_before_which_days_are_published_is_no_start_but_a_mistake(days, watch, at):
    days.publish(FIRST, online="done")
    for start, state in ((START_BEYOND, "unknown"), (FIRST + 9 * ONE_DAY, "unknown"), (FIRST + ONE_DAY, "not_started")):
        watching = watch(has_lookups=True)
        found = replace(watching, rule=replace(watching.rule, start_day=start)).judge(at(FIRST + ONE_DAY, 5))
        assert (found.state, found.is_alarming) == (state, state == "unknown"), start
        assert ("start_day" in found.beyond) == found.is_alarming
    history = replace(watching.rule, start_day=START_BEYOND, first_day=FIRST)  # wanted so: the days before are history
    assert replace(watching, rule=history).judge(at(FIRST + ONE_DAY, 5)).state == "not_started"


def test_a_published_day_is_fresh_in_each_target(days, judged):
    days.publish(FIRST, online="done")
    found = judged()
    assert {name: one.state for name, one in found.targets.items()} == {"offline": "fresh", "online": "fresh"}
    assert found.state == "fresh"


def test_the_table_may_be_fresh_and_the_lookups_stale(days, judged):
    days.publish(FIRST, online="done")
    days.publish(FIRST + ONE_DAY, online="pending", note="the store is away")
    found = judged(2)
    assert (found.table.state, found.lookups.state, found.state) == ("fresh", "stale", "stale")
    assert found.lookups.missing == (FIRST + ONE_DAY,)
    assert found.standing.pending["online"][FIRST + ONE_DAY][1] == "the store is away"


def test_lookups_that_serve_a_newer_day_lack_no_older_one(days, judged):
    days.publish(FIRST + ONE_DAY, online="done")
    days.publish(FIRST, online="older")
    assert judged(2).lookups.state == "fresh"


def test_the_copy_on_s3_lacks_what_is_pending_and_nothing_from_before_it_was_named(days, judged):
    days.publish(FIRST, online="done")
    days.publish(FIRST + ONE_DAY, online="done", copy="pending")
    found = judged(2, has_copy=True)
    assert {name: one.missing for name, one in found.targets.items()} == {
        "offline": (),
        "online": (),
        "s3": (FIRST + ONE_DAY,),
    }
    days.publish(FIRST + ONE_DAY, online="done", copy="done")
    assert judged(2, has_copy=True).state == "fresh"


def test_a_rolled_back_day_leaves_the_lookups_stale(days, judged):
    days.publish(FIRST, online="done")
    days.publish(FIRST + ONE_DAY, online="pending", note="rolled back to 2026-03-01")
    assert judged(2).lookups.missing == (FIRST + ONE_DAY,)


def test_lookups_that_were_lost_are_stale_whatever_the_records_say(days, judged):
    days.publish(FIRST, online="done")
    shutil.rmtree(days.layout.online)
    found = judged()
    assert (found.table.state, found.lookups.state, found.state) == ("fresh", "stale", "stale")
    assert found.lookups.newest_published is None
    assert "nothing is live" in found.standing.trouble
    assert f"the records say that {FIRST} is" in found.standing.trouble


def test_a_pointer_whose_file_is_gone_serves_nothing(days, judged):
    days.publish(FIRST, online="done")
    (path,) = days.layout.online.rglob("*.sqlite")
    path.unlink()
    found = judged()
    assert (found.state, found.lookups.missing) == ("stale", (FIRST,))
    assert "is gone" in found.standing.trouble


def test_lookups_put_back_from_an_older_copy_lack_the_newer_day(days, judged, tmp_path):
    days.publish(FIRST, online="done")
    shutil.copytree(days.layout.online, tmp_path / "saved")
    days.publish(FIRST + ONE_DAY, online="done")
    shutil.rmtree(days.layout.online)
    shutil.copytree(tmp_path / "saved", days.layout.online)
    found = judged(2)
    assert (found.lookups.state, found.lookups.missing) == ("stale", (FIRST + ONE_DAY,))
    assert f"serves {FIRST}" in found.standing.trouble


def test_an_earlier_publication_of_the_day_is_not_the_day(days, judged):
    days.publish(FIRST, online="done")
    days.publish(FIRST, online="pending", at=dt.datetime(2026, 4, 2, tzinfo=dt.UTC))
    assert judged().lookups.missing == (FIRST,)


def test_what_the_store_serves_needs_no_record(days, judged):
    days.publish(FIRST, online="done")
    days.layout.publish_record(FIRST).unlink()
    found = judged()
    assert (found.state, found.lookups.newest_published, found.standing.trouble) == ("fresh", FIRST, "")


def test_a_store_that_cannot_be_reached_is_no_pass_and_spoils_nothing_of_the_table(days, judged, monkeypatch):
    monkeypatch.setenv("NOBODY_THERE", "redis://127.0.0.1:1/0")
    days.publish(FIRST, online="done")
    for url_env, why in (("NOBODY_THERE", "Redis cannot be used"), ("NOT_SET", "NOT_SET is not set")):
        found = judged(online=OnlineSettings(store="redis", url_env=url_env))
        assert (found.table.state, found.lookups.state, found.state) == ("fresh", "unknown", "unknown")
        assert found.is_alarming
        assert why in found.standing.trouble


@pytest.mark.parametrize("failed", ["fail", "not_evaluated"])
def test_a_verdict_that_does_not_pass_counts_as_no_publication(failed, days, judged):
    days.publish(FIRST)
    days.judge(FIRST, Outcome(check="null_rates", result=failed, detail="balance"))
    found = judged()
    assert found.table.missing == (FIRST,)
    assert f"null_rates ({failed})" in found.standing.unproven[FIRST]


def test_a_released_day_counts(days, judged):
    days.publish(FIRST)
    verdict = days.judge(FIRST, FAILED)
    stage = verdict.stages["user_shards"]
    release = Release(check="null_rates", digest=stage.digest, by="me", at="2026-03-02T00:00:00+00:00", why="right")
    stages = {**verdict.stages, "user_shards": replace(stage, releases=(release,))}
    write_verdict(days.layout, Verdict(day=FIRST, stages=stages))
    assert judged().table.state == "fresh"


def test_a_day_without_a_verdict_does_not_count(days, judged):
    days.publish(FIRST)
    days.layout.verdict(FIRST).unlink()
    assert judged().standing.unproven == {FIRST: "was never judged: it has no verdict"}


def test_a_rerun_that_is_under_way_does_not_make_a_published_day_stale(days, judged):
    """It judges other data, stage by stage, while readers keep what they had."""
    days.publish(FIRST)
    verdict = days.judge(FIRST)
    raw = replace(verdict.stages["raw_users"], digest="x" * 64)
    write_verdict(days.layout, Verdict(day=FIRST, stages={"raw_users": raw}))
    assert judged().table.state == "fresh"


def test_a_file_that_no_publication_wrote_does_not_count(days, judged):
    part = days.layout.offline_part(FIRST)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1")
    found = judged()
    assert found.table.missing == (FIRST,)
    assert str(part) in found.standing.unproven[FIRST]


def test_a_withdrawal_that_is_half_way_counts_already(days, judged):
    days.publish(FIRST)
    record = read_record(days.layout, FIRST)
    write_withdrawal(
        days.layout,
        Withdrawal(
            day=FIRST,
            why="prices in cents",
            by="me",
            at=record.published_at,
            published_at=record.published_at,
            sources=record.sources,
            bundle_id="b-1",
        ),
    )
    assert judged().standing.unproven == {FIRST: "was withdrawn: prices in cents"}


def test_what_changes_on_disk_is_seen_at_the_next_look(days, judged):
    days.publish(FIRST)
    states = [judged().table.state]
    for outcome in ([FAILED], []):
        days.judge(FIRST, *outcome)
        states.append(judged().table.state)
    days.take_back(FIRST)
    states.append(judged().table.state)
    assert states == ["fresh", "stale", "fresh", "stale"]


def test_the_source_of_a_missing_day_is_looked_at(days, judged):
    days.deliver(FIRST)
    found = judged(2)
    assert found.table.missing == (FIRST, FIRST + ONE_DAY)
    assert found.late == {FIRST + ONE_DAY: "has no _SUCCESS"}


def test_publications_of_the_future_hide_nothing(days, judged):
    days.publish(FIRST + 400 * ONE_DAY, online="done", at=dt.datetime(2030, 1, 1, tzinfo=dt.UTC))
    found = judged()
    assert found.table.missing == (FIRST,)
