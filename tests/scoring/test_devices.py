"""What lives on a GPU beside the scoring keeps its share; no GPU is needed to see that it is asked for."""

from __future__ import annotations

import pytest

from profile_assets.errors import ProfileError
from profile_assets.scoring import scorer
from profile_assets.scoring.devices import share_memory
from profile_assets.scoring.settings import ScoringSettings


@pytest.mark.parametrize(
    ("device", "fraction", "asked"), [("cuda", 0.5, [0.5]), ("cuda", None, []), ("cpu", 0.5, []), ("cuda", 1.0, [1.0])]
)
def test_a_share_of_the_memory_is_asked_for_on_a_gpu_alone(device, fraction, asked):
    said: list[float] = []
    share_memory(device, fraction, limit=said.append)
    assert said == asked


def test_a_scorer_takes_its_share_before_it_loads_anything(bundle_path, monkeypatch):
    order = []
    monkeypatch.setattr(scorer, "share_memory", lambda device, fraction: order.append((device, fraction)))
    monkeypatch.setattr(scorer, "load_bundle", lambda *_: order.append("loaded"))
    monkeypatch.setattr(scorer, "Scorer", lambda *_: order.append("scores"))
    settings = ScoringSettings(device="cpu", memory_fraction=0.25)
    scorer.scorer_for.__wrapped__(bundle_path, settings)
    assert order == [("cpu", 0.25), "loaded", "scores"]


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1])
def test_a_share_that_is_none_is_refused(fraction):
    with pytest.raises(ProfileError, match="memory_fraction"):
        ScoringSettings(memory_fraction=fraction)
