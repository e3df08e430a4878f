"""Why a run failed, in the failure's own words: its step, what went wrong, and the remedy."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import dagster as dg

GATE = "gate"
"""The metadata of a Failure that names the stage whose checks stopped it."""

_LOG = "see the run's log"
_MOST = 600


@dataclass(frozen=True, kw_only=True)
class Failed:
    """`step` is the stage or job step, "" where the run died outside of one; `gate` the stage that a check stopped."""

    step: str
    what: str
    remedy: str
    gate: str | None
    at: dt.datetime


def failed(context: dg.RunFailureSensorContext) -> Failed:
    """What is known of a failed run. The first failed step counts: those after it could not but fail."""
    record = context.instance.get_run_record_by_id(context.dagster_run.run_id)
    ended = None if record is None else record.end_time
    at = dt.datetime.now(dt.UTC) if ended is None else dt.datetime.fromtimestamp(ended, dt.UTC)
    events = context.get_step_failure_events()
    if not events:
        what = (context.failure_event.message or "the run failed and no step of it did").strip()
        return Failed(step="", what=_short(what), remedy=f"{_LOG}; then run it again", gate=None, at=at)
    event = events[0]
    step = (event.step_key or "").rpartition("__")[2]
    data = event.step_failure_data.user_failure_data
    if data is not None:
        known = {name: str(value.value) for name, value in data.metadata.items()}
        what, remedy = known.get("what", data.description or ""), known.get("remedy", _LOG)
        return Failed(step=step, what=_short(what), remedy=remedy, gate=known.get(GATE), at=at)
    error = event.step_failure_data.error
    while error is not None and error.cause is not None:
        error = error.cause
    message = "no reason given" if error is None else error.message.strip()
    # What is ours is "module.Class: what -> remedy".
    said, _, remedy = message.partition(" -> ")
    is_ours = said.startswith("profile_assets.errors.")
    what = said.partition(": ")[2] if is_ours else said
    return Failed(step=step, what=_short(what), remedy=remedy if is_ours and remedy else _LOG, gate=None, at=at)


def _short(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"
