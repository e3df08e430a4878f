"""A fingerprint changes with everything that can change a score, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import profile_assets
from profile_assets.scoring import fingerprint as prints
from profile_assets.scoring.fingerprint import code_version, fingerprint
from profile_assets.scoring.settings import ScoringSettings

BASE = {
    "shard_digest": "a",
    "bundle_id": "b-1",
    "code": "c",
    "settings": ScoringSettings(device="cpu"),
}


@pytest.mark.parametrize(
    "change",
    [
        {"shard_digest": "z"},
        {"bundle_id": "b-2"},
        {"code": "z"},
        {"settings": ScoringSettings(device="cpu", batch_rows=512)},
        {"settings": ScoringSettings(device="cpu", threads=2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_cause_changes_it(change: dict[str, object]) -> None:
    assert fingerprint(**{**BASE, **change}) != fingerprint(**BASE)  # type: ignore[arg-type]


def test_the_number_of_workers_and_the_way_a_device_is_asked_for_do_not() -> None:
    settings = ScoringSettings(device="cpu", workers=7)
    assert fingerprint(**{**BASE, "settings": settings}) == fingerprint(**BASE)  # type: ignore[arg-type]


def test_the_code_version_covers_the_path_of_a_score() -> None:
    package = Path(profile_assets.__file__).parent
    names = {path.relative_to(package).as_posix() for path in prints._sources()}
    assert {"features/encode.py", "models/network.py", "scoring/scorer.py", "scoring/engines/here.py"} <= names
    assert not any(name.startswith(("quality", "users", "orchestration")) for name in names)
    assert len(code_version()) == 64
