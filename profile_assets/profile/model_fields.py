"""The fields of the profile file about models: how one is made, run, and put beside another."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from profile_assets.models.settings import is_architecture
from profile_assets.profile.part import Part


def _known_architecture(name: str) -> str:
    if not is_architecture(name):
        raise ValueError("no such network")
    return name


class Training(Part):
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


class Feature(Part):
    """One feature of the network."""

    name: str = Field(description="a column of the contract")
    transform: Literal["none", "log1p"] = Field("none", description="applied to a number before it is standardised")
    max_vocabulary: int = Field(50_000, ge=1, description="the most values of a text column that get their own vector")
    min_count: int = Field(1, ge=1, description="rarer training values share the unknown vector")


class Model(Part):
    """The network."""

    architecture: Annotated[str, AfterValidator(_known_architecture)] = Field(
        "wide_and_deep", description='wide_and_deep, deepfm, or a class of your own as "package.module:Class"'
    )
    features: tuple[Feature, ...] = Field(min_length=1, description="in the order in which the network sees them")
    embedding_dim: int = Field(16, ge=1, le=512, description="length of a category's vector")
    hidden: tuple[int, ...] = Field((128, 64), min_length=1, description="widths of the hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="in training only")


class Promotion(Part):
    """When a bundle may become stable: both score the newest day with known labels that neither was trained on."""

    max_log_loss_rise: float = Field(0.01, ge=0, description="relative to the log loss of the stable bundle")
    max_auc_drop: float = Field(0.005, ge=0, le=1, description="absolute, below the AUC of the stable bundle")
    min_rows: int = Field(1000, ge=1, description="fewer labelled users make no comparison, which is no pass")


class Canary(Part):
    """The users that a canary scores, while the registry has one (profile-assets models canary)."""

    share: float = Field(0.05, gt=0, le=0.5, description="of the users, by a hash of the id: the same ones every day")
    salt: str = Field("canary", min_length=1, description="another text is another share of the users")


class Shadow(Part):
    """A bundle scored beside the published one, for nobody to see (profile-assets models shadow)."""

    share: float = Field(1.0, gt=0, le=1, description="of the users, by a hash of the id: the same ones every day")
    limit_minutes: float = Field(30, gt=0, le=240, description="after so long its process is ended")
    segment: str | None = Field(None, description="a text column of the contract by which differences are shown")
    differs_by: float = Field(0.05, gt=0, lt=1, description="scores that are further apart than this disagree")


class Shards(Part):
    """How a day's users are dealt into files."""

    count: int = Field(16, ge=1, le=65_536, description="files a day; md5(user_id) modulo this")


class Scoring(Part):
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
