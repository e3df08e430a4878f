"""Everything that a bundle is made from, as one value. Knows no torch."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from profile_assets.features.spec import FeatureSettings
from profile_assets.models.grounds import Grounds
from profile_assets.models.settings import NetworkSettings, TrainingSettings
from profile_assets.users.contract import Contract
from profile_assets.users.labels import LabelSettings
from profile_assets.users.source import SourceSettings


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`today` is the date in the profile's zone: labels known by then count."""

    source: SourceSettings
    contract: Contract
    labels: LabelSettings
    features: tuple[FeatureSettings, ...]
    network: NetworkSettings
    training: TrainingSettings
    today: dt.date

    @property
    def grounds(self) -> Grounds:
        return Grounds(source=self.source, contract=self.contract, labels=self.labels, today=self.today)
