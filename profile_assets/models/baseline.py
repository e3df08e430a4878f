"""The baseline: logistic regression on the same inputs. A network that cannot beat it has not earned its place.

It is linear in the standardised values, the missing indicators and one weight a slot, with a slight L2 penalty, and
is solved to the optimum by L-BFGS in float64; so it has no settings that could be blamed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from profile_assets.features.encode import Encoded
from profile_assets.features.spec import FeatureSpec

_PENALTY_ROWS = 1.0  # as much as one row's worth, spread over all
_ITERATIONS = 100


@dataclass(frozen=True, kw_only=True)
class LogisticRegression:
    """logit = bias + numeric . weights + the weight of each slot. All float64."""

    numeric: Tensor  # (F,)
    slots: tuple[Tensor, ...]  # one (slots,) a category
    bias: Tensor  # (1,)

    @property
    def weights(self) -> list[Tensor]:
        return [self.bias, self.numeric, *self.slots]

    def logits(self, encoded: Encoded) -> Tensor:
        """float64 (n,)."""
        return self._logits(torch.from_numpy(encoded.numeric).double(), torch.from_numpy(encoded.categories))

    def _logits(self, numeric: Tensor, categories: Tensor) -> Tensor:
        logits = torch.addmv(self.bias, numeric.t(), self.numeric)
        for weight, slots in zip(self.slots, categories, strict=True):
            logits += weight.index_select(0, slots)
        return logits

    def step_down(self, numeric: Tensor, categories: Tensor, target: Tensor) -> Tensor:
        """Set the gradient of each weight, and give the mean loss with its penalty.

        By hand: what autograd makes of the slots takes five times as long as all the rest.
        """
        logits, share = self._logits(numeric, categories), 1.0 / len(target)
        error = (torch.sigmoid(logits) - target) * share
        self.bias.grad = error.sum().reshape(1)
        self.numeric.grad = torch.mv(numeric, error) + _PENALTY_ROWS * share * self.numeric
        for weight, slots in zip(self.slots, categories, strict=True):
            weight.grad = torch.bincount(slots, error, len(weight)) + _PENALTY_ROWS * share * weight
        penalty = sum((weight.square().sum() for weight in self.weights[1:]), torch.zeros((), dtype=torch.float64))
        loss = functional.binary_cross_entropy_with_logits(logits, target)
        return loss + 0.5 * _PENALTY_ROWS * share * penalty


def fit_baseline(encoded: Encoded, labels: Tensor, spec: FeatureSpec) -> LogisticRegression:
    """The optimum on these rows. labels (n,) of 0 and 1."""
    numeric, categories = torch.from_numpy(encoded.numeric).double(), torch.from_numpy(encoded.categories)
    target = labels.double()
    model = LogisticRegression(
        numeric=torch.zeros(len(numeric), dtype=torch.float64),
        slots=tuple(torch.zeros(feature.slots, dtype=torch.float64) for feature in spec.categorical),
        bias=torch.zeros(1, dtype=torch.float64),
    )
    solver = torch.optim.LBFGS(
        model.weights, max_iter=_ITERATIONS, tolerance_grad=1e-6, tolerance_change=1e-9, line_search_fn="strong_wolfe"
    )
    with torch.no_grad():
        solver.step(lambda: model.step_down(numeric, categories, target))
    return model
