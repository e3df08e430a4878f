"""A sign of life that something outside can watch: a file, and an address that is called, at the end of every look.

The file holds the moment of the last look, which is also its age. A call that fails is counted and logged, no more.
"""

from __future__ import annotations

import datetime as dt
import http.client
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Mapping

from profile_assets.alerts.book import Book
from profile_assets.alerts.passing import replace_text
from profile_assets.alerts.secrets import redacted
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import FORMAT

FILE = "heartbeat.json"
_TIMEOUT_S = 5.0
_LOGGER = logging.getLogger("profile_assets.alerts")


def beat(layout: Layout, url_env: str | None, environment: Mapping[str, str], book: Book, *, now: dt.datetime) -> None:
    """Write the file, and call the address that the environment holds under `url_env`."""
    value = {"format": FORMAT, "at": now.astimezone(dt.UTC).isoformat(timespec="seconds")}
    replace_text(layout.alerts / FILE, json.dumps(value) + "\n")
    if url_env is None:
        return
    failure = _call(environment.get(url_env, ""))
    if failure is not None:
        book.heartbeat_failures += 1
        _LOGGER.warning("alerts: the heartbeat to %s failed: %s", url_env, failure)


def _call(url: str) -> str | None:
    """Call the address; what went wrong, without the address, or None."""
    if not url.startswith(("http://", "https://")):
        return "its environment variable holds no http address"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S):
            return None
    except (OSError, http.client.HTTPException, ValueError) as error:
        return redacted(str(error), url)
