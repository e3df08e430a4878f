"""One message to one address through Apprise, and what came back.

Apprise says only whether it worked. Its plugins reach the network through `requests`, so for the time of one delivery
the plugin's `requests` is a tap that keeps each answer: status, Retry-After, and the refusals that DingTalk and WeCom
send with status 200. E-mail has no such answer: there, the words of the SMTP error are all there is. Nothing that is
logged meanwhile (Apprise and urllib3 log whole addresses) leaves this module.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import json
import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from profile_assets.alerts.alert import Alert
from profile_assets.alerts.secrets import redacted
from profile_assets.alerts.silence import silenced

_ONE_AT_A_TIME = threading.Lock()  # plugins and loggers are the process's own
_BUSY = frozenset((408, 425, 429, 500, 502, 503, 504))
_UNREADABLE = frozenset((400, 413, 415, 422))
# Frequency limits that are told with status 200: WeCom, DingTalk (two), Feishu.
_BUSY_CODES = frozenset((45009, 130101, 410100, 11232))
_SAY_NO_WITH_200 = frozenset(("dingtalk", "wecombot", "feishu", "lark"))  # the plugins' modules
_WORDS = 300
_LONGEST_S = 15.0  # a server that trickles its answer, or speaks no SMTP


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back of one message. `said` is free of secrets.

    `verdict`: "delivered"; "later" (busy, or not to be reached); "refused" (the address is wrong: somebody must act) or
    "unreadable" (this very message is not taken). `retry_after_s` is what the other side asked for.
    """

    verdict: str
    said: str
    status: int | None = None
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.verdict == "delivered"


@dataclass(frozen=True, kw_only=True)
class _Heard:
    status: int | None
    retry_after: str | None
    text: str


class _Tap:
    """The module `requests` to a plugin: everything is requests' own, and each answer is kept."""

    def __init__(self, requests: ModuleType) -> None:
        self._requests = requests
        self.heard: list[_Heard] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._requests, name)

    def request(self, method: str, url: str, **options: Any) -> Any:
        try:
            answer = self._requests.request(method, url, **options)
        except self._requests.RequestException as error:
            self.heard.append(_Heard(status=None, retry_after=None, text=_cause(error)))
            raise
        text = answer.content[: _WORDS * 4].decode(errors="replace")
        self.heard.append(_Heard(status=answer.status_code, retry_after=answer.headers.get("Retry-After"), text=text))
        return answer

    def post(self, url: str, **options: Any) -> Any:
        return self.request("POST", url, **options)

    def get(self, url: str, **options: Any) -> Any:
        return self.request("GET", url, **options)

    def put(self, url: str, **options: Any) -> Any:
        return self.request("PUT", url, **options)


def send(url: str | None, alert: Alert, *, now: dt.datetime) -> Answer:
    """Send one alert to one Apprise URL. Takes at most the plugin's timeouts, 4 s to connect and 4 s to be answered."""
    if url is None:
        return Answer(verdict="refused", said="its environment variable is not set")
    with _ONE_AT_A_TIME, silenced() as kept:
        import apprise

        box = apprise.Apprise(asset=_asset(apprise))
        if not box.add(url):
            return Answer(verdict="refused", said=_no_address(url, kept))
        service = type(box[0]).__module__.rpartition(".")[2]
        with _tapped(box[0]) as heard:
            is_sent = bool(
                box.notify(
                    body=alert.body,
                    title=alert.headline,
                    notify_type=_tone(alert),
                    body_format=apprise.NotifyFormat.TEXT,
                )
            )
    answer = _answer(is_sent, heard, kept, now=now, may_refuse=service in _SAY_NO_WITH_200)
    said = redacted(answer.said, url)
    return Answer(verdict=answer.verdict, said=said, status=answer.status, retry_after_s=answer.retry_after_s)


def _asset(apprise: ModuleType) -> Any:
    """Named as we are. Retries are the outbox's business: Apprise makes none by itself."""
    return apprise.AppriseAsset(
        app_id="profile_assets", app_desc="profile_assets", async_mode=False, service_timeout=_LONGEST_S
    )


def _tone(alert: Alert) -> str:
    if alert.is_recovery or alert.kind == "all_well":
        return "success"
    return {"info": "info", "warning": "warning", "error": "failure"}[alert.severity]


def _no_address(url: str, kept: list[logging.LogRecord]) -> str:
    """Why Apprise takes the address for none; what it says of it may hold the address, and is taken out of it."""
    scheme = url.split("://", maxsplit=1)[0] if "://" in url else ""
    why = redacted(_words(kept), url) if kept else "no such kind of address"
    return f"Apprise cannot use an address of the kind {scheme[:20]!r}: {why}"


def _answer(
    is_sent: bool, heard: list[_Heard], kept: list[logging.LogRecord], *, now: dt.datetime, may_refuse: bool
) -> Answer:
    refusal = next((found for one in heard if may_refuse and (found := _refusal(one))), None)
    if is_sent and refusal is None:
        status = heard[-1].status if heard else None
        return Answer(verdict="delivered", said=f"HTTP {status}" if status else "accepted", status=status)
    if refusal is not None:
        code, words = refusal
        return Answer(verdict="later" if code in _BUSY_CODES else "refused", said=words, status=200)
    bad = next((one for one in heard if one.status is None or not 200 <= one.status < 300), None)
    if bad is None or bad.status is None:
        return Answer(verdict="later", said=(bad.text if bad else _words(kept))[:_WORDS])
    return Answer(
        verdict="later" if bad.status in _BUSY else "unreadable" if bad.status in _UNREADABLE else "refused",
        said=f"HTTP {bad.status}: {' '.join(bad.text.split())[:_WORDS]}".rstrip(": "),
        status=bad.status,
        retry_after_s=_seconds(bad.retry_after, now),
    )


def _words(kept: list[logging.LogRecord]) -> str:
    """What Apprise logged of a failure: the exception among its details, else its last warning."""
    mark = "Socket Exception: "
    told = [(record.levelno, record.getMessage()) for record in kept]
    details = [text.removeprefix(mark) for _, text in told if text.startswith(mark)]
    warnings = [text for level, text in told if level >= logging.WARNING]
    return (details or warnings or ["no reason given"])[-1]


def _refusal(heard: _Heard) -> tuple[int, str] | None:
    """The code and the words of an answer that says no with status 200, as DingTalk, WeCom and Feishu do."""
    if heard.status != 200:
        return None
    try:
        value = json.loads(heard.text)
    except ValueError:
        return None
    code = value.get("errcode", value.get("code", 0)) if isinstance(value, dict) else 0
    if not isinstance(code, int) or code == 0:
        return None
    return code, f"refused with code {code}: {str(value.get('errmsg', value.get('msg', '')))[:_WORDS]}"


def _seconds(retry_after: str | None, now: dt.datetime) -> float | None:
    """Retry-After in seconds, which may be written as a date; None where there is none that can be read."""
    if retry_after is None:
        return None
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return max((aware - now).total_seconds(), 0.0)


def _cause(error: BaseException) -> str:
    """The innermost reason of a failed connection, without the address that the outer ones repeat."""
    inner: BaseException | None = error
    words = type(error).__name__
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror and inner.errno is not None:
            words = f"{type(error).__name__}: {inner.strerror}"
        inner = inner.__cause__ or inner.__context__
    return words


@contextlib.contextmanager
def _tapped(plugin: object) -> Iterator[list[_Heard]]:
    """Listen to what a plugin hears over HTTP; nothing is heard of one that does not use `requests`."""
    module = sys.modules[type(plugin).__module__]
    requests = getattr(module, "requests", None)
    if not isinstance(requests, ModuleType):
        yield []
        return
    tap = _Tap(requests)
    module.requests = tap  # type: ignore[attr-defined]
    try:
        yield tap.heard
    finally:
        module.requests = requests  # type: ignore[attr-defined]
