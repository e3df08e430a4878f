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


class Sociable(Linear):
    """Looks at the other rows of the batch."""

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        logits = super().forward(numeric, categories)
        return logits - logits.mean()


class Dreaming(Linear):
    """Draws, in eval mode too."""

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        logits = super().forward(numeric, categories)
        return logits + torch.randn_like(logits)


class Tall(Linear):
    """Gives a column."""

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        return super().forward(numeric, categories).unsqueeze(1)


class Normed(Linear):
    """Has a layer that looks at its batch in training mode."""

    def __init__(self, settings: NetworkSettings, spec: FeatureSpec) -> None:
        super().__init__(settings, spec)
        self.norm = nn.BatchNorm1d(2 * len(spec.numeric))

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        return super().forward(self.norm(numeric.t()).t(), categories)
