"""Each channel's endpoint played by a real server, and what is told of its answer; no secret anywhere."""

from __future__ import annotations

import datetime as dt
import email
import email.header
import email.policy
import json
import logging
from typing import Any

import pytest

from profile_assets.alerts.alert import MAX_BYTES, Alert
from profile_assets.alerts.wire import send

NOW = dt.datetime(2026, 1, 6, 3, 0, tzinfo=dt.UTC)
TOKEN = "s3cr3tt0k3n"
ALERT = Alert(
    kind="stale",
    severity="error",
    title="risk: stale, 2026-01-05 is not published",
    days=(dt.date(2026, 1, 5),),
    what="2026-01-05: its source has no _SUCCESS & <nothing>",
    since="2026-01-06 04:00 Europe/Berlin",
    remedy="have the source delivered",
    link="https://dagster.example/runs/1",
    raised_at="2026-01-06 04:01 Europe/Berlin",
)
HTTP = ["slack", "dingtalk", "wecom", "feishu", "json"]


@pytest.fixture
def url(endpoint, monkeypatch):
    """The Apprise URL of a channel, whose plugin finds its service at the test's endpoint."""
    from apprise.plugins.dingtalk import NotifyDingTalk
    from apprise.plugins.feishu import NotifyFeishu
    from apprise.plugins.slack import NotifySlack
    from apprise.plugins.wecombot import NotifyWeComBot

    monkeypatch.setattr(NotifySlack, "webhook_url", f"{endpoint.address}/services")
    monkeypatch.setattr(NotifyDingTalk, "notify_url", endpoint.address + "/robot/send?access_token={token}")
    monkeypatch.setattr(NotifyWeComBot, "notify_url", endpoint.address + "/cgi-bin/webhook/send?key={key}")
    monkeypatch.setattr(NotifyFeishu, "notify_url", endpoint.address + "/open-apis/bot/v2/hook/{token}/")
    return {
        "slack": f"slack://T1JJ3T3L2/A1BRTD4JD/{TOKEN}/#alerts",
        "dingtalk": f"dingtalk://{TOKEN}",
        "wecom": f"wecombot://{TOKEN}",
        "feishu": f"feishu://{TOKEN}",
        "json": f"json://bob:{TOKEN}@127.0.0.1:{endpoint.port}/hook/{TOKEN}",
    }.__getitem__


def text_of(channel: str, received: dict[str, Any]) -> str:
    """All that a reader of the channel sees."""
    if channel == "slack":
        return json.dumps(received, ensure_ascii=False)
    if channel in ("dingtalk", "wecom"):
        return received["text"]["content"]
    if channel == "feishu":
        return received["content"]["text"]
    return received["title"] + "\n" + received["message"]


@pytest.mark.parametrize("channel", HTTP)
def test_each_channel_gets_title_day_what_since_and_what_to_do(channel, url, endpoint):
    answer = send(url(channel), ALERT, now=NOW)
    assert (answer.verdict, answer.status, answer.said) == ("delivered", 200, "HTTP 200")
    (received,) = endpoint.received
    told = text_of(channel, received)
    for part in (ALERT.title, "[ERROR]", "no _SUCCESS", ALERT.since, ALERT.remedy, ALERT.link, ALERT.raised_at):
        assert part in told


@pytest.mark.parametrize("channel", HTTP)
@pytest.mark.parametrize(
    ("status", "verdict"), [(404, "refused"), (401, "refused"), (400, "unreadable"), (429, "later"), (503, "later")]
)
def test_the_status_is_told_on_each_channel(channel, status, verdict, url, endpoint):
    endpoint.reply.status, endpoint.reply.body = status, "no_service"
    endpoint.reply.headers = {"Retry-After": "120"}
    answer = send(url(channel), ALERT, now=NOW)
    assert (answer.verdict, answer.status, answer.retry_after_s) == (verdict, status, 120.0)
    assert answer.said == f"HTTP {status}: no_service"


@pytest.mark.parametrize("channel", HTTP)
def test_nobody_at_the_other_end_is_a_reason_to_try_later(channel, url, endpoint):
    address = url(channel)
    endpoint._server.shutdown()
    endpoint._server.server_close()
    answer = send(address, ALERT, now=NOW)
    assert (answer.verdict, answer.status) == ("later", None)
    assert "refused" in answer.said.lower()


def test_a_slow_server_is_given_up_after_the_time_that_the_url_allows(url, endpoint):
    endpoint.reply.is_slow = True
    answer = send(url("json") + "?rto=0.2&cto=0.2", ALERT, now=NOW)
    assert (answer.verdict, answer.status) == ("later", None)
    assert "Timeout" in answer.said


@pytest.mark.parametrize(
    ("channel", "body", "verdict"),
    [
        ("dingtalk", '{"errcode": 310000, "errmsg": "keywords not in content"}', "refused"),
        ("dingtalk", '{"errcode": 130101, "errmsg": "send too fast"}', "later"),
        ("wecom", '{"errcode": 93000, "errmsg": "invalid webhook url"}', "refused"),
        ("wecom", '{"errcode": 45009, "errmsg": "api freq out of limit"}', "later"),
        ("feishu", '{"code": 19001, "msg": "param invalid: incoming webhook access token invalid"}', "refused"),
        ("feishu", '{"code": 11232, "msg": "frequency limited"}', "later"),
    ],
)
def test_a_refusal_with_status_200_is_none_of_success(channel, body, verdict, url, endpoint):
    endpoint.reply.body = body
    answer = send(url(channel), ALERT, now=NOW)
    assert answer.verdict == verdict
    assert next(iter(json.loads(body).values())) != 0
    assert str(next(iter(json.loads(body).values()))) in answer.said


@pytest.mark.parametrize(
    ("channel", "body"),
    [("dingtalk", '{"errcode":0,"errmsg":"ok"}'), ("feishu", '{"StatusCode":0,"code":0}'), ("json", '{"code": 7}')],
)
def test_a_yes_is_a_yes(channel, body, url, endpoint):
    endpoint.reply.body = body
    assert send(url(channel), ALERT, now=NOW).is_delivered


def test_retry_after_may_be_a_date(url, endpoint):
    endpoint.reply.status = 429
    endpoint.reply.headers = {"Retry-After": "Tue, 06 Jan 2026 03:10:00 GMT"}
    assert send(url("json"), ALERT, now=NOW).retry_after_s == 600
    endpoint.reply.headers = {"Retry-After": "soon"}
    assert send(url("json"), ALERT, now=NOW).retry_after_s is None


def test_mail_arrives_and_a_refusal_is_told(mailbox):
    url = f"mailto://127.0.0.1:{mailbox.port}?from=score@example.org&to=team@example.org"
    assert send(url, ALERT, now=NOW).said == "accepted"
    message = email.message_from_string(mailbox.messages[0], policy=email.policy.default)
    assert message["to"] == "team@example.org"
    assert message["subject"] == "[ERROR] risk: stale, 2026-01-05 is not published"
    text = message.get_body(("plain", "html")).get_content()
    assert "no _SUCCESS" in text
    mailbox.refusal = "550 mailbox of team is full"
    answer = send(url, ALERT, now=NOW)
    assert (answer.verdict, answer.is_delivered) == ("later", False)
    assert "550" in answer.said


def test_a_mail_server_that_is_away_is_tried_later(dead_port):
    answer = send(f"mailto://127.0.0.1:{dead_port}?from=a@example.org&to=b@example.org", ALERT, now=NOW)
    assert answer.verdict == "later"
    assert "refused" in answer.said.lower()


@pytest.mark.parametrize(
    "bad", [f"nosuch://{TOKEN}", f"https://example.org/{TOKEN}", TOKEN, f"dingtalk://not-{TOKEN}!", f"slack://{TOKEN}"]
)
def test_what_is_no_address_says_so_and_does_not_repeat_it(bad, caplog):
    caplog.set_level(0)
    answer = send(bad, ALERT, now=NOW)
    assert answer.verdict == "refused"
    assert TOKEN not in answer.said + caplog.text


def test_a_variable_that_is_not_set_is_told():
    assert send(None, ALERT, now=NOW).said == "its environment variable is not set"


@pytest.mark.parametrize("channel", HTTP)
@pytest.mark.parametrize("status", [200, 404])
def test_no_secret_is_logged_or_told_even_where_the_server_repeats_it(channel, status, url, endpoint, caplog, capfd):
    endpoint.reply.status, endpoint.reply.body = status, f"you asked for {TOKEN}"
    caplog.set_level(0)
    logging.getLogger("urllib3").setLevel(logging.DEBUG)
    address = url(channel)
    answer = send(address, ALERT, now=NOW)
    out = "".join(capfd.readouterr())
    assert any(TOKEN in path for path in endpoint.paths)
    assert TOKEN not in answer.said + repr(answer) + caplog.text + out


def test_what_others_log_is_left_alone(url, caplog):
    level = logging.getLogger("apprise").level
    send(url("json"), ALERT, now=NOW)
    logging.getLogger("apprise").warning("of somebody else")
    assert logging.getLogger("apprise").level == level
    assert "of somebody else" in caplog.text


def test_a_password_of_mail_is_not_told(dead_port, caplog):
    caplog.set_level(0)
    answer = send(f"mailto://bob:{TOKEN}@127.0.0.1:{dead_port}?from=a@example.org&to=b@example.org", ALERT, now=NOW)
    assert not answer.is_delivered
    assert TOKEN not in answer.said + caplog.text


def test_the_longest_alert_fits_into_the_shortest_message():
    long = Alert(kind="stale", severity="error", title="ü" * 500, what="数" * 5000, remedy="r" * 300, since="now")
    size = len(long.headline.encode()) + len(long.body.encode())
    assert size <= MAX_BYTES
    assert long.body.endswith("What to do: " + "r" * 300)
