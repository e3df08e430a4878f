"""What every network is, whoever wrote it; and a network whose logits are calibrated."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from profile_assets.features.spec import FeatureSpec
from profile_assets.models.calibrate import Calibration
from profile_assets.models.settings import NetworkSettings


class Network(nn.Module):
    """What every architecture is, one of your own too; the profile then names it as "package.module:Class".

    It is made with the settings and the spec, and nothing else. A row's logit depends on that row alone, and in eval
    mode on nothing that was drawn. Every weight stands in `state_dict`.
    """

    def __init__(self, settings: NetworkSettings, spec: FeatureSpec) -> None:
        del settings, spec
        super().__init__()

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        """numeric (F, n) float32, categories (C, n) integer slots -> logits (n,)."""
        raise NotImplementedError

    def start_at(self, rate: float) -> None:
        """Let a fresh network give about `rate`, the share of positives, to everybody; by default it may not."""

    def fold(self) -> nn.Module:
        """The form that scores, in eval mode, sharing nothing with this one. The same scores within 1e-6."""
        return copy.deepcopy(self).eval().requires_grad_(False)


class Calibrated(nn.Module):
    """A network whose logits are scaled and shifted."""

    def __init__(self, network: nn.Module, calibration: Calibration) -> None:
        super().__init__()
        self.network, self.scale, self.shift = network, calibration.scale, calibration.shift

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        logits: Tensor = self.network(numeric, categories)
        return logits * self.scale + self.shift


def calibrated(network: nn.Module, calibration: Calibration) -> nn.Module:
    """The network with its calibration; the network itself where that changes nothing."""
    return network if calibration.is_identity else Calibrated(network, calibration).train(network.training)
