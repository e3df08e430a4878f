"""What libraries log while a message is delivered, kept for its reasons and from everybody else.

Apprise and urllib3 log whole addresses, which are secrets.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator

_CHATTY = ("apprise", "urllib3", "urllib3.connectionpool", "urllib3.util.retry", "requests")
_kept: contextvars.ContextVar[list[logging.LogRecord] | None] = contextvars.ContextVar("_kept", default=None)


class _Silence(logging.Filter):
    """Keeps what a delivery logs, in the thread that Apprise chooses, and lets none of it out.

    It stays in place: a delivery that was given up for its length may still log later.
    """

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level

    def filter(self, record: logging.LogRecord) -> bool:
        kept = _kept.get()
        if kept is None:  # somebody else's, who shares the logger
            return record.levelno >= self.level
        if record.name == "apprise":
            kept.append(record)
        return False


@contextlib.contextmanager
def silenced() -> Iterator[list[logging.LogRecord]]:
    """Keep the libraries' logs from everybody else."""
    for name in _CHATTY:
        _silence(logging.getLogger(name))
    logger, kept = logging.getLogger(_CHATTY[0]), list[logging.LogRecord]()
    level, token = logger.level, _kept.set(kept)
    logger.setLevel(logging.DEBUG)  # the reason of a failure is among the details
    try:
        yield kept
    finally:
        logger.setLevel(level)
        _kept.reset(token)


def _silence(logger: logging.Logger) -> None:
    """Put the filter before a logger, once; it knows which level the logger has for others."""
    there = next((one for one in logger.filters if isinstance(one, _Silence)), None)
    if there is None:
        logger.addFilter(_Silence(logger.getEffectiveLevel()))
    else:
        there.level = logger.getEffectiveLevel()
