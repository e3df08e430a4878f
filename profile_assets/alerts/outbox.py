"""Letters to their channels: in order, each channel at its own pace, and what cannot be delivered is tried later.

Nothing waits here. A channel that fails is left alone for a time that doubles, or for as long as it asks (Retry-After);
the next ticks take up from there. Letters are bounded in number, age and tries; one that is given up is counted and
logged. A failure to deliver is never an alert.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import time
from collections.abc import Callable, Sequence

from profile_assets.alerts.alert import Alert
from profile_assets.alerts.book import Book, ChannelState, Letter
from profile_assets.alerts.settings import Channel
from profile_assets.alerts.wire import Answer

MOST_LETTERS = 200
OLDEST = dt.timedelta(days=3)
MOST_TRIES = 100
MOST_UNREADABLE = 5  # tries of a message that the other side does not take, before the next one has its turn
TICK_S = 20.0  # no further message is begun after this: a sensor's tick may take 60 s
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LONGEST_ASKED_S = 30.0, 3600.0, 6 * 3600.0
_REFUSED_WAIT_S = 600.0
_LOGGER = logging.getLogger("profile_assets.alerts")

Send = Callable[[Channel, Alert], Answer]


def put(book: Book, alert: Alert, channels: Sequence[Channel], *, now: dt.datetime) -> Letter:
    """Write a letter to every channel that wants to be told; the oldest go where there are too many."""
    _LOGGER.warning("alert: %s | %s", alert.headline, " ".join(alert.body.split()))
    waiting = {one.name: 0 for one in channels if one.takes(alert.kind, alert.severity)}
    letter = Letter(id=book.next_id(), alert=alert, at=now, waiting=waiting)
    if waiting:
        book.letters.append(letter)
    while len(book.letters) > MOST_LETTERS:
        _give_up(book, book.letters[0], list(book.letters[0].waiting), "too many letters wait")
    return letter


def deliver(
    book: Book, channels: Sequence[Channel], *, now: dt.datetime, send: Send, save: Callable[[], None]
) -> set[str]:
    """Try every letter whose channel may be tried; gives the ids of letters that some channel took."""
    _drop_old(book, {one.name for one in channels}, now)
    began, taken = time.monotonic(), set[str]()
    for channel in channels:
        state = book.channel(channel.name)
        if state.not_before is not None and now < state.not_before:
            continue
        for letter in [one for one in book.letters if channel.name in one.waiting]:
            if time.monotonic() - began > TICK_S:
                return taken
            answer = send(channel, letter.alert)
            is_over = _record(book, letter, channel, answer, now=now)
            if answer.is_delivered:
                taken.add(letter.id)
                _tell(book, letter.id)
            save()
            if not is_over:
                break
    return taken


def _tell(book: Book, letter: str) -> None:
    """Episodes move here and nowhere else: a channel took the letter that tells of them."""
    book.episodes = [dataclasses.replace(one, is_told=True) if one.letter == letter else one for one in book.episodes]


def _record(book: Book, letter: Letter, channel: Channel, answer: Answer, *, now: dt.datetime) -> bool:
    """Note what came back; gives whether the channel is done with this letter."""
    state = book.channel(channel.name)
    if answer.is_delivered:
        if state.failures:
            _LOGGER.warning("alerts: %s takes messages again", channel.name)
        state.failures, state.not_before, state.said = 0, None, answer.said
        state.sent += 1
        _remove(book, letter, channel.name)
        return True
    letter.waiting[channel.name] += 1
    state.failures += 1
    state.failed += 1
    state.said = answer.said
    state.not_before = now + dt.timedelta(seconds=wait_s(state.failures, answer))
    until = state.not_before.isoformat(timespec="seconds")
    _LOGGER.warning("alerts: %s did not take a message (%s); tried again from %s", channel.name, answer.said, until)
    tries = letter.waiting[channel.name]
    if tries >= MOST_TRIES or (answer.verdict == "unreadable" and tries >= MOST_UNREADABLE):
        _give_up(book, letter, [channel.name], f"tried {tries} times")
    return False


def wait_s(failures: int, answer: Answer) -> float:
    """How long a channel is left alone after so many failures in a row."""
    first = _FIRST_WAIT_S if answer.verdict == "later" else _REFUSED_WAIT_S
    doubled = min(first * 2.0 ** min(failures - 1, 20), _LONGEST_WAIT_S)
    return max(doubled, min(answer.retry_after_s or 0.0, _LONGEST_ASKED_S))


def _remove(book: Book, letter: Letter, channel: str) -> None:
    del letter.waiting[channel]
    if not letter.waiting:
        book.letters = [one for one in book.letters if one.id != letter.id]


def _give_up(book: Book, letter: Letter, channels: Sequence[str], why: str) -> None:
    for name in channels:
        book.channels.setdefault(name, ChannelState()).dropped += 1
        _LOGGER.error("alerts: %s never took %r: %s", name, letter.alert.title, why)
        _remove(book, letter, name)


def _drop_old(book: Book, known: set[str], now: dt.datetime) -> None:
    """Let go of letters that are too old, and of channels that the profile no longer has."""
    for letter in list(book.letters):
        gone = [name for name in letter.waiting if name not in known]
        if now - letter.at > OLDEST:
            since = letter.at.isoformat(timespec="minutes")
            _give_up(book, letter, list(letter.waiting), f"it has waited since {since}")
        elif gone:
            _give_up(book, letter, gone, "the profile has that channel no more")
    book.channels = {name: state for name, state in book.channels.items() if name in known}
