"""Looks on a clock, at days on a disk, with a channel that is a real endpoint: what is told, how often, and when."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import replace

import pytest

from profile_assets.alerts import book as books
from profile_assets.alerts.incidents import Incident, note
from profile_assets.alerts.outbox import MOST_LETTERS
from profile_assets.alerts.settings import ChannelSettings
from profile_assets.alerts.watch import Runs, look
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.storage.outcomes import Outcome
from profile_assets.storage.published import read_record
from profile_assets.storage.records import Manifest

ONE_DAY = dt.timedelta(days=1)
FIRST = dt.date(2026, 3, 1)
MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def told(endpoint):
    """Look with a channel at the endpoint; gives the titles that came since the last look."""
    environment = {"ALERTS": f"json://127.0.0.1:{endpoint.port}/?rto=0.3&cto=0.3"}

    def go(watch, now, **options):
        before = len(endpoint.received)
        look(watch, now=now, environment=environment, **options)
        return endpoint.titles()[before:] if endpoint.reply.status == 200 else []

    return go


def many(first: dt.date, count: int) -> list[dt.date]:
    return [first + n * ONE_DAY for n in range(count)]


def test_a_month_of_punctual_nights_raises_no_alert(days, watch, at, told):
    """Every hour from 1 March, through the night that lacks one, with a job that publishes at 02:20."""
    now, end = at(FIRST, 12), at(dt.date(2026, 4, 5), 12)
    published = FIRST
    while now < end:
        if now >= at(published + ONE_DAY, 2 + 1 / 3):
            days.publish(published, online="done")
            published += ONE_DAY
        assert told(watch(has_lookups=True), now) == []
        now += 60 * MINUTE
    assert published == dt.date(2026, 4, 5)


def test_stale_is_told_once_when_due_and_recovery_once(days, watch, at, told):
    days.deliver(FIRST)
    assert told(watch(), at(FIRST + ONE_DAY, 3.99)) == []
    assert told(watch(), at(FIRST + ONE_DAY, 4)) == ["[ERROR] risk: stale, 2026-03-01 is not published"]
    for hour in (4.1, 5, 12, 24 + 3.9):
        assert told(watch(), at(FIRST + ONE_DAY, hour)) == []
    days.publish(FIRST)
    assert told(watch(), at(FIRST + ONE_DAY, 27.95)) == ["[RECOVERED] risk: 2026-03-01 is published"]
    assert told(watch(), at(FIRST + ONE_DAY, 28)) == ["[ERROR] risk: stale, the source of 2026-03-02 is late"]
    assert told(watch(), at(FIRST + ONE_DAY, 28.1)) == []


def test_the_message_says_since_when_why_and_what_to_do(watch, at, told, endpoint):
    told(watch(ui_url="https://dagster.example/"), at(FIRST + ONE_DAY, 4.5))
    (message,) = endpoint.received
    assert message["title"] == "[ERROR] risk: stale, the source of 2026-03-01 is late"
    assert message["type"] == "failure"
    assert message["message"].splitlines() == [
        "2026-03-01: its source has no _SUCCESS",
        "Since: 2026-03-02 04:00 Europe/Berlin",
        "What to do: have the source delivered; then the sensor source_ready starts the day, or "
        "`profile-assets backfill 2026-03-01 2026-03-01`",
        "Link: https://dagster.example/assets/risk/published_scores",
        "Raised: 2026-03-02 04:30 Europe/Berlin",
    ]


def test_days_that_go_missing_in_a_row_are_one_episode(days, watch, at, told):
    days.deliver(*many(FIRST, 4))
    titles = [told(watch(), at(day + ONE_DAY, 5)) for day in many(FIRST, 4)]
    assert titles == [["[ERROR] risk: stale, 2026-03-01 is not published"], [], [], []]
    for day in many(FIRST, 3):
        days.publish(day)
    assert told(watch(), at(dt.date(2026, 3, 5), 6)) == []
    days.publish(dt.date(2026, 3, 4))
    assert told(watch(), at(dt.date(2026, 3, 5), 7)) == [
        "[RECOVERED] risk: 4 days (2026-03-01 to 2026-03-04) are published"
    ]


def test_an_old_hole_does_not_keep_a_later_one_quiet(days, watch, at, told):
    days.deliver(*many(FIRST, 10))
    for day in many(FIRST, 10):
        days.publish(day)
    assert told(watch(), at(dt.date(2026, 3, 11), 5)) == []
    days.take_back(dt.date(2026, 3, 3))
    assert told(watch(), at(dt.date(2026, 3, 11), 6)) == ["[ERROR] risk: stale, 2026-03-03 is not published"]
    days.deliver(dt.date(2026, 3, 11))
    assert told(watch(), at(dt.date(2026, 3, 12), 5)) == ["[ERROR] risk: stale, 2026-03-11 is not published"]
    assert told(watch(), at(dt.date(2026, 3, 12), 6)) == []


def test_fifty_missing_days_are_one_message(watch, at, told, endpoint):
    assert told(watch(), at(FIRST + 50 * ONE_DAY, 5)) == [
        "[ERROR] risk: stale, 50 days (2026-03-01 to 2026-04-19) are not published"
    ]
    assert "7 days (2026-04-13 to 2026-04-19): its source has no _SUCCESS" in endpoint.received[0]["message"]
    assert told(watch(), at(FIRST + 50 * ONE_DAY, 6)) == []


def test_a_backfill_of_an_old_day_and_a_second_publication_recover_nothing(days, watch, at, told):
    days.deliver(*many(FIRST, 3))
    days.publish(dt.date(2026, 3, 2))
    now = at(dt.date(2026, 3, 4), 5)
    assert len(told(watch(), now)) == 1
    days.publish(dt.date(2026, 3, 2), at=dt.datetime(2030, 1, 1, tzinfo=dt.UTC))
    days.publish(FIRST)
    assert told(watch(), now + MINUTE) == ["[RECOVERED] risk: 2026-03-01 is published"]
    days.publish(dt.date(2026, 3, 3))
    assert told(watch(), now + 2 * MINUTE) == ["[RECOVERED] risk: 2026-03-03 is published"]


def test_a_day_in_the_table_whose_verdict_failed_is_stale_and_says_why(days, watch, at, told, endpoint):
    days.deliver(FIRST)
    days.publish(FIRST)
    days.judge(FIRST, Outcome(check="null_rates", result="fail", observed=0.2, limit=0.1, detail="balance"))
    assert told(watch(), at(FIRST + ONE_DAY, 5)) == ["[ERROR] risk: stale, 2026-03-01 is not published"]
    assert "null_rates (fail)" in endpoint.received[0]["message"]


def test_a_day_that_a_gate_stopped_names_check_observed_limit_and_baseline(days, watch, at, told, endpoint):
    days.deliver(FIRST)
    failed = Outcome(check="null_rates", result="fail", observed=0.2, limit=0.1, baseline=0.05, detail="balance")
    days.judge(FIRST, failed)
    told(watch(), at(FIRST + ONE_DAY, 5))
    text = endpoint.received[0]["message"]
    assert "user_shards did not pass null_rates: observed 0.2, limit 0.1, baseline 0.05" in text
    assert "profile-assets release 2026-03-01 --check null_rates" in text


# --- targets -----------------------------------------------------------------------------------------


def test_a_pending_target_is_told_after_a_while_and_over_when_it_is_done(days, watch, at, told):
    now = at(FIRST + ONE_DAY, 2.5)
    days.publish(FIRST, online="pending", at=now)
    assert told(watch(has_lookups=True), now + 29 * MINUTE) == []
    assert told(watch(has_lookups=True), now + 31 * MINUTE) == ["[WARNING] risk: 2026-03-01 waits to be online"]
    assert told(watch(has_lookups=True), now + 89 * MINUTE) == []
    due = ["[ERROR] risk: stale, 2026-03-01 is not online"]  # some are told of errors only
    assert told(watch(has_lookups=True), now + 90 * MINUTE) == due
    assert told(watch(has_lookups=True), now + 180 * MINUTE) == []
    days.publish(FIRST, online="done")
    assert told(watch(has_lookups=True), now + 181 * MINUTE) == [
        "[RECOVERED] risk: 2026-03-01 is online, or a newer day is"
    ]


def test_a_due_day_that_is_not_online_is_stale_there_and_a_missing_one_is_told_once(days, watch, at, told):
    days.publish(FIRST, online="done")
    days.publish(FIRST + ONE_DAY, online="pending")
    days.deliver(FIRST + 2 * ONE_DAY)
    assert told(watch(has_lookups=True), at(FIRST + 3 * ONE_DAY, 5)) == [
        "[ERROR] risk: stale, 2026-03-03 is not published",
        "[ERROR] risk: stale, 2026-03-02 is not online",
    ]


def test_a_first_day_in_the_future_is_told_once_and_so_is_its_correction(days, watch, at, told, endpoint):
    days.publish(FIRST, online="done")
    right = watch(has_lookups=True)
    wrong = replace(right, rule=replace(right.rule, start_day=dt.date(2062, 3, 1)))
    now = at(FIRST + ONE_DAY, 5)
    assert told(wrong, now) == ["[ERROR] risk: no day is due, for start_day is still to come"]
    assert "days before it are published up to 2026-03-01" in endpoint.received[-1]["message"]
    assert told(wrong, now + MINUTE) == []
    assert told(right, now + 2 * MINUTE) == ["[RECOVERED] risk: start_day is corrected, or has come"]


def test_lookups_that_are_lost_are_told_once_with_the_true_reason_and_once_that_they_are_back(
    days, watch, at, told, endpoint
):
    for day in (FIRST, FIRST + ONE_DAY):
        days.publish(day, online="done")
    watching, saved = watch(has_lookups=True), days.layout.home / "saved"
    assert told(watching, at(FIRST + 2 * ONE_DAY, 5)) == []
    days.layout.online.rename(saved)
    assert told(watching, at(FIRST + 2 * ONE_DAY, 6)) == ["[ERROR] risk: stale, 2026-03-02 is not online"]
    assert "nothing is live in" in endpoint.received[-1]["message"]
    assert "`profile-assets publish 2026-03-02` brings it back" in endpoint.received[-1]["message"]
    assert told(watching, at(FIRST + 2 * ONE_DAY, 7)) == []
    saved.rename(days.layout.online)
    recovered = ["[RECOVERED] risk: 2026-03-02 is online, or a newer day is"]
    assert told(watching, at(FIRST + 2 * ONE_DAY, 8)) == recovered
    assert told(watching, at(FIRST + 2 * ONE_DAY, 9)) == []


def test_a_store_that_cannot_be_reached_is_told_once_and_so_is_that_it_can_be(days, watch, at, told, endpoint):
    days.publish(FIRST, online="done")
    now, away = at(FIRST + ONE_DAY, 5), watch(online=OnlineSettings(store="redis", url_env="NOT_SET"))
    assert told(away, now) == ["[ERROR] risk: it cannot be told whether 2026-03-01 is online"]
    assert "it cannot be told what lookups serve: NOT_SET is not set" in endpoint.received[-1]["message"]
    assert told(away, now + MINUTE) == []
    assert told(watch(has_lookups=True), now + 2 * MINUTE) == [
        "[RECOVERED] risk: 2026-03-01 is online, or a newer day is"
    ]


def test_a_copy_on_s3_that_is_pending_is_told_beside_the_lookups(days, watch, at, told):
    watching = watch(has_lookups=True, has_copy=True)
    days.publish(FIRST, online="done", copy="pending")
    assert told(watching, at(FIRST + ONE_DAY, 5)) == ["[ERROR] risk: stale, 2026-03-01 is not on S3"]
    days.publish(FIRST, online="done", copy="done")
    assert told(watching, at(FIRST + ONE_DAY, 6)) == ["[RECOVERED] risk: 2026-03-01 is on S3"]


# --- warnings ----------------------------------------------------------------------------------------


def test_drift_that_only_warns_is_told_once_while_it_lasts(days, watch, at, told, endpoint):
    drift = Outcome(check="feature_drift", result="fail", severity="warn", observed=0.4, limit=0.2, detail="PSI of pay")
    for n, day in enumerate(many(FIRST, 3)):
        days.publish(day)
        days.judge(day, *([drift] if n < 2 else []), stage="user_scores")
        titles = told(watch(), at(day + ONE_DAY, 5))
        assert (
            titles
            == [
                ["[WARNING] risk: feature_drift warns on 2026-03-01"],
                [],
                ["[RECOVERED] risk: feature_drift no longer warns"],
            ][n]
        )
    assert "user_scores: PSI of pay" in endpoint.received[0]["message"]


def reconcile(days, day: dt.date, changed: int) -> None:
    """What the weekly comparison of the day's present publication with its scores in full came to."""
    record = read_record(days.layout, day)
    counts = {"published": 1000, "full": 1000, "added": 0, "removed": 0, "changed": changed}
    value = {"format": 1, "day": str(day), **counts, "published_at": record.published_at.isoformat()}
    path = days.layout.reconciliation(day)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def test_a_day_that_is_not_what_scoring_it_in_full_gives_is_told_once_and_once_that_it_was_replaced(
    days, watch, at, told, endpoint
):
    days.publish(FIRST)
    now = at(FIRST + ONE_DAY, 5)
    reconcile(days, FIRST, changed=3)
    assert told(watch(), now) == ["[ERROR] risk: 2026-03-01 is not what scoring it in full gives"]
    message = endpoint.received[0]["message"]
    assert "of 1,000 users, beside those scored in full: 0 added, 0 removed, 3 changed" in message
    assert f"profile-assets reconcile {FIRST} --replace" in message
    assert told(watch(), now) == []
    days.publish(FIRST, at=dt.datetime(2026, 4, 2, tzinfo=dt.UTC))  # replaced: another publication than was compared
    recovered = "[RECOVERED] risk: 2026-03-01 was published again or withdrawn, or the newest day reconciled"
    assert told(watch(), now) == [recovered]
    assert told(watch(), now) == []


@pytest.mark.parametrize("ends", ["reconciled", "withdrawn", "newer"])
def test_a_difference_is_over_once_it_is_gone_or_a_newer_day_is_reconciled(days, watch, at, told, ends):
    second = FIRST + ONE_DAY
    days.publish(FIRST)
    days.publish(second)
    now = at(second + ONE_DAY, 5)
    reconcile(days, FIRST, changed=3)
    assert len(told(watch(), now)) == 1
    if ends == "withdrawn":
        days.layout.offline_part(FIRST).unlink()
    else:
        reconcile(days, second if ends == "newer" else FIRST, changed=0)
    assert [title for title in told(watch(), now) if title.startswith("[RECOVERED]")]


def test_a_comparison_that_cannot_be_read_is_told_as_that(days, watch, at, told):
    days.publish(FIRST)
    reconcile(days, FIRST, changed=3)
    days.layout.reconciliation(FIRST).write_text('{"format": 1}')
    (title,) = told(watch(), at(FIRST + ONE_DAY, 5))
    assert title == "[ERROR] risk: unjudged, 2026-03-02"


def land(days, day: dt.date, read: int, quarantined: int) -> None:
    """A committed landing of a day."""
    facts = {"read": read, "quarantined": quarantined, "reasons": {"null id": quarantined}}
    manifest = Manifest(stage="raw_users", day=str(day), files=(), made_from={}, facts=facts)
    path = days.layout.manifest("raw_users", day)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest.to_json()))


def test_many_rows_set_aside_are_told_once_while_they_last(days, watch, at, told, endpoint):
    now = at(FIRST, 23)
    land(days, FIRST - ONE_DAY, 1000, 10)
    assert told(watch(max_quarantine_rate=0.01), now) == []
    land(days, FIRST, 1000, 11)
    assert told(watch(max_quarantine_rate=0.01), now) == ["[WARNING] risk: many rows of 2026-03-01 were set aside"]
    assert "11 of 1,000 rows set aside (1.10%, warned above 1.00%): 11 null id" in endpoint.received[0]["message"]
    land(days, FIRST, 1000, 12)
    assert told(watch(max_quarantine_rate=0.01), now) == []
    land(days, FIRST, 1000, 0)
    assert told(watch(max_quarantine_rate=0), now) == ["[RECOVERED] risk: few rows are set aside again"]


# --- failed runs -------------------------------------------------------------------------------------


def failed(days, number: int, at: dt.datetime, **fields) -> None:
    values = {
        "run_id": f"run-{number}",
        "kind": "run_failed",
        "at": at,
        "job": "risk_day",
        "day": FIRST + number * ONE_DAY,
        "stage": "raw_users",
        "reason": "the source is not CSV",
        "remedy": "mend it",
        "link": f"https://dagster.example/runs/run-{number}",
    }
    note(days.layout, Incident(**{**values, **fields}))


@pytest.fixture
def quiet():
    """Nothing is due: only runs can be told of."""
    return dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def test_a_failed_run_is_told_once_with_stage_error_remedy_and_link(days, watch, told, quiet, endpoint):
    failed(days, 0, quiet)
    assert told(watch(), quiet) == ["[ERROR] risk: 2026-03-01 failed"]
    text = endpoint.received[0]["message"]
    assert "2026-03-01, raw_users: the source is not CSV" in text
    assert "What to do: mend it" in text
    assert "https://dagster.example/runs/run-0" in text
    failed(days, 0, quiet)
    assert told(watch(), quiet + MINUTE) == []


def test_fifty_failing_days_are_one_message_even_where_they_fail_one_by_one(days, watch, told, quiet):
    titles, watching = [], watch(group_minutes=5)
    for n in range(50):
        failed(days, n, quiet + n * MINUTE)
        titles += told(watching, quiet + n * MINUTE)
    titles += told(watching, quiet + 53 * MINUTE)
    assert titles == []
    assert told(watching, quiet + 55 * MINUTE) == ["[ERROR] risk: 50 days (2026-03-01 to 2026-04-19) failed"]
    assert told(watching, quiet + 70 * MINUTE) == []


def test_a_backfill_is_told_when_it_is_over_or_after_an_hour(days, watch, told, quiet):
    runs = Runs(is_going_on=lambda backfill: backfill == "b")
    failed(days, 0, quiet, group="b")
    failed(days, 1, quiet, group="c", kind="gate_failed", reason="null_rates: observed 0.2, limit 0.1")
    assert told(watch(), quiet + MINUTE, runs=runs) == ["[ERROR] risk: 2026-03-02 did not pass the gates"]
    assert told(watch(), quiet + 59 * MINUTE, runs=runs) == []
    assert told(watch(), quiet + 60 * MINUTE, runs=runs) == ["[ERROR] risk: 2026-03-01 failed"]


def test_a_run_that_is_started_again_is_not_told(days, watch, told, quiet):
    failed(days, 0, quiet)
    assert told(watch(), quiet, runs=Runs(is_retried=lambda run: run == "run-0")) == []
    assert told(watch(), quiet + MINUTE) == []


def test_a_damaged_note_is_told_as_that(days, watch, told, quiet):
    path = days.layout.alerts / "incidents" / "run-9.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    os.utime(path, (quiet.timestamp(), quiet.timestamp()))
    assert told(watch(), quiet) == ["[ERROR] risk: a job failed"]
    assert told(watch(), quiet + MINUTE) == []


# --- when nothing can be judged ----------------------------------------------------------------------


def test_what_cannot_be_judged_is_told_and_closes_nothing(days, watch, at, told):
    days.deliver(*many(FIRST, 3))
    now = at(FIRST + ONE_DAY, 5)
    assert len(told(watch(), now)) == 1
    manifest = days.layout.manifest("raw_users", FIRST)
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    assert told(watch(), now + MINUTE) == ["[ERROR] risk: unjudged, 2026-03-02"]
    assert told(watch(), now + 2 * MINUTE) == []
    manifest.unlink()
    assert told(watch(), now + 3 * MINUTE) == ["[RECOVERED] risk: freshness can be judged again"]


def test_what_cannot_be_read_hides_no_missing_day_and_an_odd_folder_stops_nothing(days, watch, at, told):
    days.deliver(*many(FIRST, 3))
    manifest = days.layout.manifest("raw_users", FIRST)
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    odd = manifest.parent.with_name("day=2026-02-31")
    odd.mkdir()
    (odd / manifest.name).write_text("{")
    assert told(watch(), at(FIRST + 4 * ONE_DAY, 5)) == [
        "[ERROR] risk: stale, 4 days (2026-03-01 to 2026-03-04) are not published",
        "[ERROR] risk: unjudged, 2026-03-05",
    ]


# --- the channel is away -----------------------------------------------------------------------------


def state(days) -> list[tuple[str, bool]]:
    return [(one.topic, one.is_told) for one in books.read(days.layout).episodes]


@pytest.mark.parametrize("fault", ["429", "404", "500", "slow", "dead"])
def test_the_state_moves_only_after_delivery_and_the_message_comes_once(fault, days, watch, at, endpoint, caplog):
    days.deliver(FIRST)
    here, secret = f"json://127.0.0.1:{endpoint.port}/s3cr3tt0k3n?rto=0.2&cto=0.2", "s3cr3tt0k3n"
    away = here if fault != "dead" else "json://127.0.0.1:1/s3cr3tt0k3n?rto=0.2&cto=0.2"
    endpoint.reply.is_slow = fault == "slow"
    endpoint.reply.status = int(fault) if fault.isdigit() else 200
    endpoint.reply.headers = {"Retry-After": "3600"} if fault == "429" else {}
    now = at(FIRST + ONE_DAY, 4)
    for minute in range(0, 20, 5):
        seen = look(watch(), now=now + minute * MINUTE, environment={"ALERTS": away})
        assert (seen.delivered, seen.waiting) == (0, 1)
        assert state(days) == [("offline", False)]
    tries = books.read(days.layout).channels["ALERTS"].failed
    assert tries == {"429": 1, "404": 2}.get(fault, 4)
    endpoint.reply.is_slow, endpoint.reply.status = False, 200
    endpoint.received.clear()
    look(watch(), now=now + 50 * MINUTE, environment={"ALERTS": here})
    later = look(watch(), now=now + 90 * MINUTE, environment={"ALERTS": here})
    assert later.waiting == 0
    assert state(days) == [("offline", True)]
    assert endpoint.titles() == ["[ERROR] risk: stale, 2026-03-01 is not published"]
    assert secret not in caplog.text + (days.layout.alerts / "book.json").read_text()


def test_retry_after_is_honoured_to_the_second(days, watch, at, told, endpoint):
    days.deliver(FIRST)
    endpoint.reply.status, endpoint.reply.headers = 429, {"Retry-After": "900"}
    now = at(FIRST + ONE_DAY, 4)
    told(watch(), now)
    endpoint.reply.status = 200
    for seconds in (30, 300, 899):
        assert told(watch(), now + dt.timedelta(seconds=seconds)) == []
    assert len(told(watch(), now + dt.timedelta(seconds=900))) == 1


def test_after_an_outage_messages_come_in_order(days, watch, at, told, endpoint):
    days.deliver(FIRST)
    endpoint.reply.status = 503
    now = at(FIRST + ONE_DAY, 4)
    told(watch(), now)
    days.publish(FIRST)
    told(watch(), now + 10 * MINUTE)
    endpoint.reply.status = 200
    assert told(watch(), now + 60 * MINUTE) == [
        "[ERROR] risk: stale, 2026-03-01 is not published",
        "[RECOVERED] risk: 2026-03-01 is published",
    ]


def test_a_channel_that_is_away_keeps_no_other_waiting(days, watch, at, endpoint):
    days.deliver(FIRST)
    channels = (ChannelSettings(url_env="DEAD"), ChannelSettings(url_env="ALERTS"))
    environment = {"DEAD": "json://127.0.0.1:1", "ALERTS": f"json://127.0.0.1:{endpoint.port}"}
    for minute in range(5):
        look(watch(*channels), now=at(FIRST + ONE_DAY, 4) + minute * MINUTE, environment=environment)
    assert len(endpoint.received) == 1
    assert state(days) == [("offline", True)]


def test_severities_and_kinds_are_routed(days, watch, at, endpoint):
    drift = Outcome(check="feature_drift", result="fail", severity="warn", observed=0.4, limit=0.2, detail="PSI")
    days.publish(FIRST)
    days.judge(FIRST, drift, stage="user_scores")
    days.deliver(FIRST + ONE_DAY)
    channels = (
        ChannelSettings(url_env="PAGER", min_severity="error"),
        ChannelSettings(url_env="MODEL", kinds=("drift",)),
        ChannelSettings(url_env="ALL"),
    )
    url = f"json://127.0.0.1:{endpoint.port}"
    environment = {"PAGER": f"{url}/pager", "MODEL": f"{url}/model", "ALL": f"{url}/all {url}/too"}
    look(watch(*channels), now=at(FIRST + 2 * ONE_DAY, 5), environment=environment)
    got = sorted(zip((path.strip("/") for path in endpoint.paths), endpoint.titles(), strict=True))
    drifts, stale = (
        "[WARNING] risk: feature_drift warns on 2026-03-01",
        "[ERROR] risk: stale, 2026-03-02 is not published",
    )
    assert got == sorted(
        [("pager", stale), ("model", drifts), ("all", stale), ("all", drifts), ("too", stale), ("too", drifts)]
    )


def test_what_waits_is_bounded_in_number_and_age(days, watch, told, endpoint, quiet, caplog):
    endpoint.reply.status = 503
    for n in range(MOST_LETTERS + 20):
        failed(days, n % 40, quiet, run_id=f"r-{n}", group=f"g-{n}")
    told(watch(), quiet)
    book = books.read(days.layout)
    assert len(book.letters) == MOST_LETTERS
    assert book.channels["ALERTS"].dropped == 20
    told(watch(), quiet + dt.timedelta(days=3, minutes=1))
    left = books.read(days.layout).letters
    assert all("stale" in letter.alert.title for letter in left)
    assert "never took" in caplog.text


def test_an_episode_whose_letter_was_given_up_is_told_anew(days, watch, at, told, endpoint):
    days.deliver(FIRST)
    endpoint.reply.status = 503
    now = at(FIRST + ONE_DAY, 4)
    told(watch(), now)
    told(watch(), now + dt.timedelta(days=3, minutes=1))
    endpoint.reply.status = 200
    titles = told(watch(), now + dt.timedelta(days=3, hours=2))
    assert len(titles) == 1
    assert "stale" in titles[0]


def test_a_message_that_is_not_taken_lets_the_next_one_pass(days, watch, told, endpoint, quiet):
    endpoint.reply.status = 400
    failed(days, 0, quiet)
    now = quiet
    for _ in range(5):
        told(watch(), now)
        now += dt.timedelta(hours=1)
    endpoint.reply.status = 200
    assert books.read(days.layout).letters == []
    failed(days, 1, now)
    assert told(watch(), now + dt.timedelta(hours=1)) == ["[ERROR] risk: 2026-03-02 failed"]


def test_without_a_channel_everything_is_logged_and_remembered(days, watch, at, caplog):
    days.deliver(FIRST)
    watching = watch()
    watching = replace(watching, settings=replace(watching.settings, channels=()))
    look(watching, now=at(FIRST + ONE_DAY, 4), environment={})
    look(watching, now=at(FIRST + ONE_DAY, 5), environment={})
    assert caplog.text.count("stale, 2026-03-01 is not published") == 1
    assert state(days) == [("offline", True)]


def test_a_damaged_book_is_set_aside(days, watch, at, told):
    days.deliver(FIRST)
    told(watch(), at(FIRST + ONE_DAY, 4))
    path = days.layout.alerts / "book.json"
    path.write_text("{")
    assert len(told(watch(), at(FIRST + ONE_DAY, 5))) == 1
    assert path.with_suffix(".damaged").exists()


def test_a_look_that_dies_after_a_delivery_does_not_tell_twice(days, watch, at, told, monkeypatch):
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    days.deliver(FIRST)
    with monkeypatch.context() as patch:
        patch.setattr("profile_assets.alerts.watch.beat", die)
        with pytest.raises(KeyboardInterrupt):
            told(watch(), at(FIRST + ONE_DAY, 4))
    assert told(watch(), at(FIRST + ONE_DAY, 4)) == []
    assert state(days) == [("offline", True)]


# --- morning, heartbeat ------------------------------------------------------------------------------


def test_each_morning_one_line_says_that_all_is_well(days, watch, at, told, endpoint):
    days.publish(FIRST, rows=23570)
    watching, day = watch(morning_hour=8), FIRST + ONE_DAY
    assert told(watching, at(day, 7.9)) == []
    assert told(watching, at(day, 8)) == ["[OK] risk: all is well"]
    assert endpoint.received[-1]["message"] == "2026-03-01: 23,570 rows published, no warnings"
    assert told(watching, at(day, 8.5)) == []
    days.deliver(day)
    assert told(watching, at(day, 24 + 9)) == ["[ERROR] risk: stale, 2026-03-02 is not published"]


def test_the_heartbeat_is_a_file_and_a_call(days, watch, at, endpoint, dead_port, caplog):
    now = at(FIRST, 12)
    environment = {"BEAT": f"{endpoint.address}/ping/s3cr3tt0k3n"}
    look(watch(heartbeat_url_env="BEAT"), now=now, environment=environment)
    assert endpoint.paths == ["/ping/s3cr3tt0k3n"]
    value = json.loads((days.layout.alerts / "heartbeat.json").read_text())
    assert dt.datetime.fromisoformat(value["at"]) == now
    for url in (f"http://127.0.0.1:{dead_port}/s3cr3tt0k3n", "", f"{endpoint.address}/ping/s3cr3tt0k3n"):
        endpoint.reply.status = 500
        look(watch(heartbeat_url_env="BEAT"), now=now, environment={"BEAT": url})
    assert books.read(days.layout).heartbeat_failures == 3
    assert "s3cr3tt0k3n" not in caplog.text
