"""The profile file as a whole; its large tables stand beside this file. What fields mean together: mistakes.py."""

from __future__ import annotations

import datetime as dt
import difflib
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field

from profile_assets.profile.model_fields import Canary, Model, Promotion, Scoring, Shadow, Shards, Training
from profile_assets.profile.part import Part
from profile_assets.profile.publish_fields import Alerts, Export, Quality, Retention, Retries
from profile_assets.profile.table_fields import ContractTable, Labels, Source


def _known_zone(name: str) -> str:
    if name not in available_timezones():
        near = difflib.get_close_matches(name, available_timezones(), n=1)
        raise ValueError(f"no such time zone{f'; did you mean {near[0]!r}?' if near else ''}")
    return name


class Replay(Part):
    """A recorded history lived again: every date in the file is moved by the same whole days."""

    last_known_day: dt.date = Field(description="the recorded day that falls on yesterday when the replay begins")


class Schedule(Part):
    """When a day is scored, and from when on it is overdue."""

    hour: int = Field(2, ge=0, le=23, description="local hour at which yesterday is scored")
    minute: int = Field(0, ge=0, le=59, description="and the minute of that hour")
    grace_hours: int = Field(2, ge=0, le=48, description="hours after the schedule from which a day is due")
    live_from: dt.date | None = Field(
        None, description="days before it are history: they may be backfilled and are never overdue; default start_day"
    )


class Profile(Part):
    """One score, from its source to its readers."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$", description="prefix of every asset, folder and key")
    title: str = Field("", description="one line for people")
    time_zone: Annotated[str, AfterValidator(_known_zone)] = Field(
        description="the zone in which a day begins and ends"
    )
    start_day: dt.date = Field(description="the first day that is scored")
    replay: Replay | None = Field(None, description="a recorded history lived again (the demo)")
    schedule: Schedule = Field(Schedule(), description="when a day is scored")
    source: Source = Field(description="where the users lie")
    contract: ContractTable = Field(description="what their table promises")
    labels: Labels | None = Field(None, description="what came true; only for training")
    training: Training | None = Field(None, description="how a model is made; not for weights made elsewhere")
    model: Model = Field(description="the network")
    promotion: Promotion = Field(Promotion(), description="when a bundle may become stable")
    canary: Canary = Field(Canary(), description="the share of the users that a canary scores")
    shadow: Shadow = Field(Shadow(), description="how a shadow is scored and compared")
    shards: Shards = Field(Shards(), description="the files of a day")
    scoring: Scoring = Field(Scoring(), description="how the network is run")
    quality: Quality = Field(Quality(), description="limits")
    export: Export = Field(Export(), description="targets")
    retries: Retries = Field(Retries(), description="what is done about errors that may pass")
    retention: Retention = Field(Retention(), description="how long data is kept")
    alerts: Alerts = Field(Alerts(), description="who is told")
