"""What the profile says about a model: the shape of its network, and how it is trained. Knows no torch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from profile_assets.errors import BundleError, ProfileError

Architecture = Literal["wide_and_deep", "deepfm"]


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The network. `hidden` holds the widths of the deep part's layers, first to last."""

    architecture: Architecture = "wide_and_deep"
    embedding_dim: int = 16
    hidden: tuple[int, ...] = (128, 64)
    dropout: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NetworkSettings:
        """As written by `to_json`; BundleError where no network can be built from it."""
        try:
            settings = cls(**{**value, "hidden": tuple(value["hidden"])})
            widths = (settings.embedding_dim, *settings.hidden)
            is_usable = (
                settings.architecture in get_args(Architecture)
                and len(settings.hidden) > 0
                and all(isinstance(width, int) and 0 < width <= 65_536 for width in widths)
                and 0 <= settings.dropout < 1
            )
        except (KeyError, TypeError) as error:
            raise _unusable(value) from error
        if not is_usable:
            raise _unusable(value)
        return settings


def _unusable(value: object) -> BundleError:
    return BundleError(f"no network can be built from {value!r}", remedy="promote another bundle, or train a new one")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a bundle is trained.

    Snapshots of every `every_days`-th day from `first_day` to `last_day` are learned from; training stops when
    `patience` epochs in a row have not lowered the log loss of `selection_day`; `report_days` are only measured.
    """

    first_day: dt.date
    last_day: dt.date
    every_days: int = 7
    selection_day: dt.date
    report_days: tuple[dt.date, ...] = ()
    epochs: int = 20
    patience: int = 3
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    batch_rows: int = 2048
    seed: int = 0
    threads: int = 1

    @property
    def training_days(self) -> tuple[dt.date, ...]:
        """The days learned from, oldest first."""
        count = (self.last_day - self.first_day).days // self.every_days + 1
        return tuple(self.first_day + dt.timedelta(days=self.every_days * step) for step in range(count))

    @property
    def days(self) -> tuple[dt.date, ...]:
        """Every day whose snapshot training needs, oldest first."""
        return tuple(sorted({*self.training_days, self.selection_day, *self.report_days}))


def check_split(settings: TrainingSettings, horizon_days: int) -> None:
    """ProfileError unless every measured day lies clear of what training has seen.

    The labels of the last training day reach `horizon_days` ahead: a day measured before that has ended would be
    judged on an outcome that the network was shown.
    """
    days = settings.training_days
    if not days:
        raise ProfileError(
            f"training from {settings.first_day} to {settings.last_day} has no day",
            remedy="set first_day on or before last_day",
        )
    first_clear = days[-1] + dt.timedelta(days=horizon_days)
    early = sorted(day for day in {settings.selection_day, *settings.report_days} if day < first_clear)
    if early:
        raise ProfileError(
            f"{', '.join(map(str, early))}: measured before {first_clear}, when the labels of the last training day "
            f"{days[-1]} ({horizon_days} days ahead) are complete",
            remedy=f"set selection_day and report_days to {first_clear} or later, or end training earlier",
        )
    if settings.selection_day in settings.report_days:
        raise ProfileError(
            f"{settings.selection_day} chooses the epoch and is reported as unseen",
            remedy="take selection_day out of report_days; it is measured in any case, and marked",
        )
