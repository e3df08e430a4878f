"""Texts that came from outside, without the secrets of the address that they are about."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

HIDDEN = "…"
_SHORTEST = 5
_PIECES = re.compile(r"[/:@?&=#,;+\s<>\"']+")
_PLAIN = frozenset(("https", "http", "mailto", "mailtos", "slack", "dingtalk", "wecombot", "feishu", "jsons", "error"))


def redacted(text: str, url: str | None) -> str:
    """The text with every part of the address that may be a secret taken out, as written and as decoded."""
    for secret in sorted(_secrets(url or ""), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(url: str) -> set[str]:
    parts = urlsplit(url)
    pieces = {piece for form in (url, unquote(url)) for piece in _PIECES.split(form) if len(piece) >= _SHORTEST}
    try:
        named = {parts.username or "", parts.password or ""}
    except ValueError:
        named = set()
    named |= {unquote(one) for one in named}
    return {one for one in pieces | {one for one in named if len(one) >= 3} if one.lower() not in _PLAIN}
