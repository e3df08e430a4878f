"""Every field of the profile file, described. What the fields mean together is in mistakes.py."""

from __future__ import annotations

import datetime as dt
import difflib
from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from profile_assets.alerts.settings import Kind
from profile_assets.models.settings import is_architecture
from profile_assets.users.contract import parse_type
from profile_assets.users.source import parse_ready


def _known_zone(name: str) -> str:
    if name not in available_timezones():
        near = difflib.get_close_matches(name, available_timezones(), n=1)
        raise ValueError(f"no such time zone{f'; did you mean {near[0]!r}?' if near else ''}")
    return name


def _known_type(text: str) -> str:
    parse_type(text)
    return text


def _known_ready(text: str) -> str:
    parse_ready(text)
    return text


def _one_byte(mark: str) -> str:
    if len(mark.encode()) != 1 or mark in '"\r\n\0':
        raise ValueError("must be one character of ASCII, and neither a quote nor a line end")
    return mark


_Mark = Annotated[str, AfterValidator(_one_byte)]


def _known_architecture(name: str) -> str:
    if not is_architecture(name):
        raise ValueError("no such network")
    return name


_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Replay(_Part):
    """A recorded history lived again: every date in the file is moved by the same whole days."""

    last_known_day: dt.date = Field(description="the recorded day that falls on yesterday when the replay begins")


class Schedule(_Part):
    """When a day is scored, and from when on it is overdue."""

    hour: int = Field(2, ge=0, le=23, description="local hour at which yesterday is scored")
    minute: int = Field(0, ge=0, le=59, description="and the minute of that hour")
    grace_hours: int = Field(2, ge=0, le=48, description="hours after the schedule from which a day is due")
    live_from: dt.date | None = Field(
        None, description="days before it are history: they may be backfilled and are never overdue; default start_day"
    )


class Csv(_Part):
    """How numbers and nulls are written in CSV; everything is read as text and cast by the contract."""

    delimiter: _Mark = Field(",", description="the character between fields")
    decimal: _Mark = Field(".", description="the decimal mark")
    thousands: str | None = Field(None, min_length=1, max_length=1, description="the digit group mark, if there is one")
    null_values: tuple[str, ...] = Field(("",), description="unquoted texts that mean null; never applied to the id")


class Source(_Part):
    """Where the users of a day lie: files (path), or a table in a database (query and url_env)."""

    path: str = Field("", description="a folder with {day} in it, or a hive table's root; under PROFILE_DATA, or s3://")
    format: Literal["parquet", "csv", "ndjson"] = Field("parquet", description="parquet, csv or ndjson")
    hive_key: str = Field("day", description="the key of the hive folders, for a path without {day}")
    csv: Csv = Field(Csv(), description="how CSV is written")
    query: str | None = Field(None, description="SQL that gives the users of :day, instead of path; :day is a date")
    url_env: _Variable | None = Field(
        None, description="the environment variable with the database's URL: postgresql:// or sqlite:////"
    )
    ready: Annotated[str, AfterValidator(_known_ready)] = Field(
        "none", description='what a day waits for: "_SUCCESS" in its folder, "stable_for 5m" (nothing changed), "none"'
    )
    watch_days: int = Field(14, ge=0, description="newest published days whose source is compared with what landed")
    s3_endpoint: str | None = Field(None, description="the address of an S3 server other than AWS's")


class ContractColumn(_Part):
    """One column that the users table promises."""

    name: str = Field(min_length=1, description="the name in the source, matched exactly")
    type: Annotated[str, AfterValidator(_known_type)] = Field(
        description="string, bool, int8 to int64, float32, float64, date, timestamp, decimal(p,s), list<type>"
    )
    required: bool = Field(True, description="the day fails where the column is missing; else it lands as nulls")
    max_null_rate: float = Field(1.0, ge=0, le=1, description="allowed share of missing values, over all rows")
    minimum: int | float | None = Field(None, description="rows below go to quarantine")
    maximum: int | float | None = Field(None, description="rows above go to quarantine")
    values: tuple[str, ...] | None = Field(None, description="rows with any other text go to quarantine")
    zoneless_is_utc: bool = Field(False, description="times without a zone are UTC; else they are refused")
    personal: bool = Field(False, description="values are hashed wherever examples are shown")


class ContractTable(_Part):
    """What the users table promises, and what happens to rows that break the promise."""

    id: str = Field(min_length=1, description="the column that identifies a user: text or an exact integer")
    keep: Literal["first", "last"] = Field("first", description="which row of a user that stands twice is kept")
    max_quarantine_rate: float = Field(0.01, ge=0, le=1, description="above this share of rows set aside the day fails")
    columns: tuple[ContractColumn, ...] = Field(min_length=1, description="every other column that is wanted")


class Labels(_Part):
    """What came true of each user, once it is known: files (path), or a table in a database (query and url_env)."""

    path: str = Field("", description="a folder with {day} in it, or a hive table's root; under PROFILE_DATA, or s3://")
    format: Literal["parquet", "csv", "ndjson"] = Field("parquet", description="parquet, csv or ndjson")
    query: str | None = Field(None, description="SQL that gives the labels of :day, instead of path; :day is a date")
    url_env: _Variable | None = Field(None, description="the environment variable with the database's URL")
    key: str = Field(description="the column with the user's id")
    column: str = Field(description="the column with the label, 0 or 1")
    horizon_days: int = Field(ge=1, description="days after the day that the label looks at")
    hive_key: str = Field("day", description="the key of the hive folders, for a path without {day}")
    csv: Csv = Field(Csv(), description="how CSV is written")
    s3_endpoint: str | None = Field(None, description="the address of an S3 server other than AWS's")


class Training(_Part):
    """Which days teach, which one stops, which ones are reported; and what makes training repeatable."""

    first_day: dt.date = Field(description="the first training snapshot")
    last_day: dt.date = Field(description="no training snapshot is later")
    every_days: int = Field(7, ge=1, description="days from one training snapshot to the next")
    selection_day: dt.date = Field(description="the day whose loss stops the training early")
    report_days: tuple[dt.date, ...] = Field((), description="further days that are only measured")
    epochs: int = Field(20, ge=1, description="the most passes over the training rows")
    patience: int = Field(3, ge=1, description="passes without a gain before the training stops")
    learning_rate: float = Field(1e-3, gt=0, description="of AdamW")
    weight_decay: float = Field(1e-5, ge=0, description="of AdamW")
    batch_rows: int = Field(2048, ge=1, description="rows of one gradient step")
    seed: int = Field(0, ge=0, description="of every random draw")
    threads: int = Field(1, ge=1, description="sums depend on it, so it is fixed and recorded")
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced lets the rarer label weigh as much as the other; scores stay probabilities"
    )
    recalibration: Literal["none", "newest"] = Field(
        "none", description="newest fits a scale and a shift of the logits on the newest day with known labels"
    )


class Feature(_Part):
    """One feature of the network."""

    name: str = Field(description="a column of the contract")
    transform: Literal["none", "log1p"] = Field("none", description="applied to a number before it is standardised")
    max_vocabulary: int = Field(50_000, ge=1, description="the most values of a text column that get their own vector")
    min_count: int = Field(1, ge=1, description="rarer training values share the unknown vector")


class Model(_Part):
    """The network."""

    architecture: Annotated[str, AfterValidator(_known_architecture)] = Field(
        "wide_and_deep", description='wide_and_deep, deepfm, or a class of your own as "package.module:Class"'
    )
    features: tuple[Feature, ...] = Field(min_length=1, description="in the order in which the network sees them")
    embedding_dim: int = Field(16, ge=1, le=512, description="length of a category's vector")
    hidden: tuple[int, ...] = Field((128, 64), min_length=1, description="widths of the hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="in training only")


class Promotion(_Part):
    """When a bundle may become stable: both score the newest day with known labels that neither was trained on."""

    max_log_loss_rise: float = Field(0.01, ge=0, description="relative to the log loss of the stable bundle")
    max_auc_drop: float = Field(0.005, ge=0, le=1, description="absolute, below the AUC of the stable bundle")
    min_rows: int = Field(1000, ge=1, description="fewer labelled users make no comparison, which is no pass")


class Canary(_Part):
    """The users that a canary scores, while the registry has one (profile-assets models canary)."""

    share: float = Field(0.05, gt=0, le=0.5, description="of the users, by a hash of the id: the same ones every day")
    salt: str = Field("canary", min_length=1, description="another text is another share of the users")


class Shadow(_Part):
    """A bundle scored beside the published one, for nobody to see (profile-assets models shadow)."""

    share: float = Field(1.0, gt=0, le=1, description="of the users, by a hash of the id: the same ones every day")
    limit_minutes: float = Field(30, gt=0, le=240, description="after so long its process is ended")
    segment: str | None = Field(None, description="a text column of the contract by which differences are shown")
    differs_by: float = Field(0.05, gt=0, lt=1, description="scores that are further apart than this disagree")


class Shards(_Part):
    """How a day's users are dealt into files."""

    count: int = Field(16, ge=1, le=65_536, description="files a day; md5(user_id) modulo this")


class Scoring(_Part):
    """How the network is run."""

    mode: Literal["full", "incremental"] = Field(
        "full", description="incremental carries the scores of users whose model input did not change"
    )
    batch_rows: int | None = Field(
        None,
        ge=256,
        multiple_of=256,
        description="rows of every forward, the last padded; by default 4096 on a CPU, and on a GPU what is found best",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU where there is one")
    threads: int = Field(1, ge=1, description="torch threads of a process; more than 1 slows busy machines")
    workers: int | None = Field(None, ge=1, description="processes; by default one per core or GPU, as memory allows")
    max_batch_rows: int | None = Field(
        None, ge=256, multiple_of=256, description="the most rows that a GPU's best is looked for among"
    )
    memory_fraction: float | None = Field(
        None, gt=0, le=1, description="the most of a GPU's memory for each process; the rest is for others there"
    )


class Quality(_Part):
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


class Online(_Part):
    """Where single users are looked up."""

    store: Literal["none", "sqlite", "redis"] = Field("sqlite", description="sqlite is embedded; redis is shared")
    url_env: str = Field("PROFILE_REDIS_URL", description="name of the environment variable with the Redis address")
    expires_hours: float = Field(72, gt=0, description="hours after the end of its day from which a score is expired")
    keep_hours: float = Field(72, ge=1, description="hours that a replaced version is kept for a rollback")
    rows_per_s: int | None = Field(None, ge=1, description="the most users loaded a second; default no bound")


class Bucket(_Part):
    """The table once more on S3, for readers who do not see this disk. Credentials come from the environment."""

    url: str = Field(pattern=r"^s3://[^/\s]+(/\S+)?$", description="s3://bucket/prefix; the profile's name is added")
    endpoint: str | None = Field(None, description="the address of an S3 server other than AWS's")


class Export(_Part):
    """Where scores are published."""

    offline: Literal["parquet", "delta"] = Field("parquet", description="the table's format")
    columns: tuple[str, ...] = Field((), description="columns of the contract that readers find beside the score")
    online: Online = Field(Online(), description="lookups of single users")
    bucket: Bucket | None = Field(None, description="the table once more on S3")


class AlertChannel(_Part):
    """Somebody who is told of some things. The addresses themselves are secrets and stay in the environment."""

    url_env: _Variable = Field(description="the environment variable with an Apprise URL, or several between blanks")
    min_severity: Literal["info", "warning", "error"] = Field("info", description="nothing below it goes there")
    kinds: tuple[Kind, ...] = Field((), description="only these kinds of alerts go there, see docs/alerts.md; all")


class Retries(_Part):
    """What is done about errors that may pass: disk, network, a lock that is held. No other error is retried."""

    waits_s: tuple[Annotated[float, Field(ge=0, le=86_400)], ...] = Field(
        (60, 600), max_length=10, description="seconds before each further try; [] tries once"
    )


class Retention(_Part):
    """How long a day's data is kept. The table, manifests, verdicts and publish records stay."""

    raw_days: int = Field(14, ge=1, description="days for landed users, rows set aside, and what dead runs left")
    shards_days: int = Field(14, ge=1, description="days for shards")
    scores_days: int = Field(30, ge=1, description="days for the files of scores; the published table stays")


class Alerts(_Part):
    """Who is told, and how. Where anybody is, the sensors of alerts are on from the start."""

    urls_env: tuple[_Variable, ...] = Field(
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
    heartbeat_url_env: _Variable | None = Field(
        None, description="the environment variable with an http address that is called at every look"
    )
    metrics_file: str | None = Field(
        None, description="the Prometheus textfile; under PROFILE_DATA; default <name>/metrics/<name>.prom"
    )


class Profile(_Part):
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
