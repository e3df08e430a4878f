"""Why a run failed, in the failure's own words: its step, what went wrong, and the remedy."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import dagster as dg
from dagster._core.events import EngineEventData  # what a process tells of itself; it has no public name
from dagster_shared.error import SerializableErrorInfo

GATE = "gate"
"""The metadata of a Failure that names the stage whose checks stopped it."""

_OURS = "profile_assets.errors."
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
        what, remedy = _outside(context)
        return Failed(step="", what=_short(what), remedy=remedy, gate=None, at=at)
    event = events[0]
    step = (event.step_key or "").rpartition("__")[2]
    data = event.step_failure_data.user_failure_data
    if data is not None:
        known = {name: str(value.value) for name, value in data.metadata.items()}
        what, remedy = known.get("what", data.description or ""), known.get("remedy", _LOG)
        return Failed(step=step, what=_short(what), remedy=remedy, gate=known.get(GATE), at=at)
    what, remedy = _said(event.step_failure_data.error)
    return Failed(step=step, what=_short(what), remedy=remedy, gate=None, at=at)


def _outside(context: dg.RunFailureSensorContext) -> tuple[str, str]:
    """Why a run failed outside of its steps: by what its process met, or else in the words of who ended it."""
    logs = context.instance.all_logs(context.dagster_run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    events = (entry.dagster_event for entry in logs if entry.dagster_event is not None)
    errors = [data.error for event in events if isinstance(data := event.event_specific_data, EngineEventData)]
    met = next((error for error in errors if error is not None), None)
    if met is not None:
        return _said(met)
    told = (context.failure_event.message or "the run failed and no step of it did").strip()
    return told, f"{_LOG}; then run it again"


def _said(error: SerializableErrorInfo | None) -> tuple[str, str]:
    """What an error says is wrong, and the remedy; what is ours is "module.Class: what -> remedy"."""
    while error is not None and error.cause is not None:
        error = error.cause
    message = "no reason given" if error is None else error.message.strip()
    _, ours, after = message.partition(_OURS)
    if not ours:
        return message, _LOG
    said, _, remedy = after.partition(": ")[2].partition(" -> ")
    return said, remedy or _LOG


def _short(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"
