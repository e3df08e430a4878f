"""The fields of the profile file about what comes out: limits, targets, alerts, retries and retention."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from profile_assets.alerts.settings import Kind
from profile_assets.profile.part import Part, Variable


class Quality(Part):
    """When a day is too bad to be seen. A limit of 0 is a limit."""

    min_rows: int = Field(1, ge=0, description="fewer users fail the day")
    max_row_change: float = Field(0.5, ge=0, description="relative, against the newest earlier published day")
    max_row_change_weekday: float = Field(0.5, ge=0, description="relative, against the newest of the same weekday")
    max_null_rate_change: float = Field(0.1, ge=0, le=1, description="absolute, per column, against the newest day")
    max_null_rate_change_weekday: float = Field(0.1, ge=0, le=1, description="absolute, against the same weekday")
    max_shard_skew: float = Field(1.5, ge=0, description="rows of the largest shard over the mean")
    max_score_psi: float = Field(0.2, ge=0, description="drift of the scores since the newest earlier published day")
    max_unknown_rate: float = Field(0.1, ge=0, le=1, description="share of users, per category, unknown to training")
    max_feature_psi: float = Field(0.2, ge=0, description="drift of each feature, and the score, since training")
    on_feature_drift: Literal["warn", "fail"] = Field("warn", description="what drift since training does to the day")
    min_drift_rows: int = Field(1000, ge=0, description="with fewer users no drift is told from chance")
    suite: str | None = Field(None, description="a Great Expectations suite of your own, as JSON; under PROFILE_DATA")


class Online(Part):
    """Where single users are looked up."""

    store: Literal["none", "sqlite", "redis"] = Field("sqlite", description="sqlite is embedded; redis is shared")
    url_env: str = Field("PROFILE_REDIS_URL", description="name of the environment variable with the Redis address")
    expires_hours: float = Field(72, gt=0, description="hours after the end of its day from which a score is expired")
    keep_hours: float = Field(72, ge=1, description="hours that a replaced version is kept for a rollback")
    rows_per_s: int | None = Field(None, ge=1, description="the most users loaded a second; default no bound")


class Bucket(Part):
    """The table once more on S3, for readers who do not see this disk. Credentials come from the environment."""

    url: str = Field(pattern=r"^s3://[^/\s]+(/\S+)?$", description="s3://bucket/prefix; the profile's name is added")
    endpoint: str | None = Field(None, description="the address of an S3 server other than AWS's")


class Export(Part):
    """Where scores are published."""

    offline: Literal["parquet", "delta"] = Field("parquet", description="the table's format")
    columns: tuple[str, ...] = Field((), description="columns of the contract that readers find beside the score")
    online: Online = Field(Online(), description="lookups of single users")
    bucket: Bucket | None = Field(None, description="the table once more on S3")


class AlertChannel(Part):
    """Somebody who is told of some things. The addresses themselves are secrets and stay in the environment."""

    url_env: Variable = Field(description="the environment variable with an Apprise URL, or several between blanks")
    min_severity: Literal["info", "warning", "error"] = Field("info", description="nothing below it goes there")
    kinds: tuple[Kind, ...] = Field((), description="only these kinds of alerts go there, see docs/alerts.md; all")


class Retries(Part):
    """What is done about errors that may pass: disk, network, a lock that is held. No other error is retried."""

    waits_s: tuple[Annotated[float, Field(ge=0, le=86_400)], ...] = Field(
        (60, 600), max_length=10, description="seconds before each further try; [] tries once"
    )


class Retention(Part):
    """How long a day's data is kept. The table, manifests, verdicts and publish records stay."""

    raw_days: int = Field(14, ge=1, description="days for landed users, rows set aside, and what dead runs left")
    shards_days: int = Field(14, ge=1, description="days for shards")
    scores_days: int = Field(30, ge=1, description="days for the files of scores; the published table stays")


class Alerts(Part):
    """Who is told, and how. Where anybody is, the sensors of alerts are on from the start."""

    urls_env: tuple[Variable, ...] = Field(
        (), description="environment variables with Apprise URLs, several between blanks: told of everything"
    )
    channels: tuple[AlertChannel, ...] = Field((), description="others, who are told of some things")
    morning_hour: int | None = Field(
        None, ge=0, le=23, description="local hour from which one line says that all is well, each day; none never"
    )
    group_minutes: float = Field(5, ge=0, description="failed runs are told together once none failed for so long")
    pending_minutes: float = Field(30, ge=0, description="minutes after which a target that is pending is told")
    max_quarantine_rate: float = Field(
        0.005, ge=0, le=1, description="above this share of rows set aside there is a warning; the day goes on"
    )
    ui_url: str | None = Field(None, description="where people find the Dagster UI, for links: https://dagster.example")
    heartbeat_url_env: Variable | None = Field(
        None, description="the environment variable with an http address that is called at every look"
    )
    metrics_file: str | None = Field(
        None, description="the Prometheus textfile; under PROFILE_DATA; default <name>/metrics/<name>.prom"
    )
