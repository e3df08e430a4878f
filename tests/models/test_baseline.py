from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.baseline import fit_baseline


def made_up_labels(users: pa.Table, spec: FeatureSpec) -> torch.Tensor:
    encoded, draw = encode(users, spec), np.random.default_rng(5)
    logits = encoded.numeric[0] - 0.5 * encoded.numeric[1] + (encoded.categories[0] == 3) - 1.0
    return torch.from_numpy((draw.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(np.float32))


def test_the_gradient_worked_out_by_hand_is_that_of_autograd(users: pa.Table, spec: FeatureSpec) -> None:
    encoded, labels = encode(users, spec), made_up_labels(users, spec).double()
    model = fit_baseline(encoded, labels, spec)
    numeric, categories = torch.from_numpy(encoded.numeric).double(), torch.from_numpy(encoded.categories)
    for weight in model.weights:
        weight.add_(0.1)
        weight.requires_grad_(True)
    loss = model.step_down(numeric, categories, labels)
    by_hand = [weight.grad for weight in model.weights]
    by_autograd = torch.autograd.grad(loss, model.weights)
    for one, other in zip(by_hand, by_autograd, strict=True):
        torch.testing.assert_close(one, other)


def test_the_optimum_is_reached_and_the_truth_found(users: pa.Table, spec: FeatureSpec) -> None:
    encoded, labels = encode(users, spec), made_up_labels(users, spec)
    model = fit_baseline(encoded, labels, spec)
    assert max(float(weight.grad.abs().max()) for weight in model.weights if weight.grad is not None) < 1e-4
    assert 0.8 < float(model.numeric[0]) < 1.2
    assert -0.7 < float(model.numeric[1]) < -0.3
    assert float(model.slots[0][3] - model.slots[0][2]) > 0.6


def test_logits_of_the_training_rows_match_their_rate(users: pa.Table, spec: FeatureSpec) -> None:
    encoded, labels = encode(users, spec), made_up_labels(users, spec)
    mean = float(torch.sigmoid(fit_baseline(encoded, labels, spec).logits(encoded)).mean())
    assert abs(mean - float(labels.mean())) < 1e-3
