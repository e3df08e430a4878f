"""What the profile says about a model: the shape of its network, and how it is trained. Knows no torch."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeGuard

from profile_assets.errors import BundleError, ProfileError

ARCHITECTURES = ("wide_and_deep", "deepfm")
_OWN_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)

ClassWeights = Literal["none", "balanced"]
Recalibration = Literal["none", "newest"]
Role = Literal["training", "selection", "recalibration", "report"]


def is_architecture(name: object) -> TypeGuard[str]:
    """Whether this is written as the name of a network is: a known one, or "package.module:Class"."""
    return isinstance(name, str) and (name in ARCHITECTURES or _OWN_CLASS.fullmatch(name) is not None)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The network. `hidden` holds the widths of the deep part's layers, first to last.

    `architecture` is one of ARCHITECTURES, or the import path of a class of one's own (see `network.Network`).
    """

    architecture: str = "wide_and_deep"
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
                is_architecture(settings.architecture)
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
    `class_weights` "balanced" lets the rarer label weigh as much as the other; scores are corrected for it.
    `recalibration_day`, if there is one, then fits a scale and a shift of the logits; "newest" chooses that day.
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
    class_weights: ClassWeights = "none"
    recalibration: Recalibration = "none"
    recalibration_day: dt.date | None = None

    @property
    def training_days(self) -> tuple[dt.date, ...]:
        """The days learned from, oldest first."""
        count = (self.last_day - self.first_day).days // self.every_days + 1
        return tuple(self.first_day + dt.timedelta(days=self.every_days * step) for step in range(count))

    @property
    def days(self) -> tuple[dt.date, ...]:
        """Every day whose snapshot training needs, oldest first."""
        return tuple(sorted({*self.training_days, *self.measured_days}))

    @property
    def measured_days(self) -> tuple[dt.date, ...]:
        """The days that the model is measured on, each once: the selection day, then the others, oldest first."""
        later = {*self.report_days, *([self.recalibration_day] if self.recalibration_day else [])}
        return (self.selection_day, *sorted(later - {self.selection_day}))

    def role(self, day: dt.date) -> Role:
        """What a day is for; a day that chose the epoch or the calibration is not reported as unseen."""
        if day in self.training_days:
            return "training"
        if day == self.recalibration_day:
            return "recalibration"
        return "selection" if day == self.selection_day else "report"


@dataclass(frozen=True, kw_only=True)
class PromotionLimits:
    """`max_log_loss_rise` is relative to that of stable, `max_auc_drop` absolute; `min_rows` make a comparison."""

    max_log_loss_rise: float = 0.01
    max_auc_drop: float = 0.005
    min_rows: int = 1000


def first_clear_day(settings: TrainingSettings, horizon_days: int) -> dt.date:
    """The first day by whose end the labels of the last training day are complete."""
    return settings.training_days[-1] + dt.timedelta(days=horizon_days)


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
    first_clear = first_clear_day(settings, horizon_days)
    early = sorted(day for day in settings.measured_days if day < first_clear)
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
