"""A network that misbehaves once it is asked to, by a file in the folder that an environment variable names."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from profile_assets.features.spec import FeatureSpec
from profile_assets.models.network import Network
from profile_assets.models.settings import NetworkSettings


def is_asked_to(what: str) -> bool:
    return Path(os.environ["BAD_NETWORKS"], what).exists()


class Bad(Network):
    def __init__(self, settings: NetworkSettings, spec: FeatureSpec) -> None:
        super().__init__(settings, spec)
        self.numeric = nn.Linear(2 * len(spec.numeric), 1)

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:  # noqa: ARG002 (every network is called so)
        logits = self.numeric(numeric.t()).squeeze(1)
        if is_asked_to("raise"):
            raise RuntimeError("the shadow is broken")
        if is_asked_to("hang"):
            Path(os.environ["BAD_NETWORKS"], "pid").write_text(str(os.getpid()))
            time.sleep(3600)
        if is_asked_to("nonsense"):
            return torch.full_like(logits, float("nan"))
        return logits
