"""Networks as a user of the package writes them: importable by path, with the constructor of every network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from profile_assets.features.spec import FeatureSpec
from profile_assets.models.network import Network
from profile_assets.models.settings import NetworkSettings


class Linear(Network):
    """A logistic regression on numbers and one embedding a category."""

    def __init__(self, settings: NetworkSettings, spec: FeatureSpec) -> None:
        super().__init__(settings, spec)
        self.numeric = nn.Linear(2 * len(spec.numeric), 1)
        self.tables = nn.ModuleList(nn.Embedding(feature.slots, 1) for feature in spec.categorical)

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        slots = [table(place).squeeze(1) for table, place in zip(self.tables, categories.long(), strict=True)]
        return self.numeric(numeric.t()).squeeze(1) + torch.stack(slots).sum(dim=0)


class Unmakeable(Network):
    """Needs something that nobody gives."""

    def __init__(self, settings: NetworkSettings, spec: FeatureSpec, width: int) -> None:
        super().__init__(settings, spec)
        self.width = width
