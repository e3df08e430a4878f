"""The check that lookups give what the table gives, as an outcome like those of the gates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING

from profile_assets.storage.published import ONLINE
from profile_assets.storage.verdicts import Outcome

if TYPE_CHECKING:  # what it imports is slow, and only the export needs it
    from profile_assets.feature_store.publish import Published

ONLINE_PARITY = "online_parity"


def utc_now() -> dt.datetime:
    """This moment."""
    return dt.datetime.now(dt.UTC)


def parity_outcomes(done: Published) -> Iterator[Outcome]:
    """Whether every id and a sample of values are online as they are in the table; nothing where there are no lookups.

    A day that is older than what is live passes: it is not to be there.
    """
    target = done.record.targets.get(ONLINE)
    if target is None:
        return
    if done.brought is None:
        yield Outcome(check=ONLINE_PARITY, result="pass", detail=target.note)
        return
    parity, wrong = done.brought.parity, len(done.differing)
    looked_up = f"{wrong} of {parity.sampled} lookups give another value" if done.brought.is_live else target.note
    yield Outcome(
        check=ONLINE_PARITY,
        result="pass" if parity.is_equal and not wrong else "fail",
        observed=parity.rows_online,
        limit=parity.rows,
        detail=f"{parity}; {looked_up}",
    )
