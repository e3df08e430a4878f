from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profile_assets.errors import ProfileError
from profile_assets.profile import load_profile


def mistakes_of(path: Path) -> str:
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    return str(caught.value)


def test_every_mistake_is_told_at_once_with_its_path_and_remedy(write: Callable[[str], Path], minimal: str):
    text = mistakes_of(
        write(
            minimal.replace('"Europe/Berlin"', '"Europe/Berln"')
            .replace('type = "float64"', 'type = "flote64"')
            .replace('name = "risk"', 'name = "Risk!"')
            .replace('{ name = "country" }', '{ name = "contry" }, { name = "country", transform = "log1p" }')
            + '[shards]\ncounts = 4\n[scoring]\nbatch_rows = 1000\ndevice = "tpu"\n[quality]\nmin_rows = -1\n'
        )
    )
    for expected in (
        "has 9 mistake(s)",
        "name: ",
        "time_zone: no such time zone; did you mean 'Europe/Berlin'?",
        "contract.columns[0].type: ",
        "model.features[1].name: 'contry' is no column of the contract; did you mean 'country'?",
        "model.features[2].transform: 'country' is text and takes no transform",
        "shards.counts: no such field; did you mean 'count'?",
        "scoring.batch_rows: ",
        "scoring.device: ",
        "quality.min_rows: ",
    ):
        assert expected in text


def test_a_missing_field_is_named_with_its_meaning(write: Callable[[str], Path]):
    text = mistakes_of(write('name = "risk"\n'))
    assert "source: is missing; add it (where the users lie)" in text
    assert "start_day: is missing" in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "country"\ntype', 'name = "balance"\ntype', "contract.columns: 'balance' stands 2 times"),
        (
            'name = "country"\ntype',
            'name = "account"\ntype',
            "contract.columns[1].name: 'account' is the id's own name",
        ),
        (
            'name = "country"\ntype',
            'name = "user_id"\ntype',
            "contract.columns[1].name: 'user_id' is the id's own name",
        ),
        ('{ name = "country" }', '{ name = "balance" }', "model.features[1].name: 'balance' stands twice"),
        ('type = "float64"', 'type = "float64"\nminimum = 2\nmaximum = 1', "minimum 2 is above maximum 1"),
    ],
)
def test_contradictions_are_named(write: Callable[[str], Path], minimal: str, old: str, new: str, expected: str):
    assert old in minimal
    assert expected in mistakes_of(write(minimal.replace(old, new)))


def test_training_needs_labels_and_a_gap_before_what_is_measured(write: Callable[[str], Path], minimal: str):
    training = "[training]\nfirst_day = 2026-01-01\nlast_day = 2026-03-01\nselection_day = 2026-03-15\n"
    assert "labels: is missing" in mistakes_of(write(minimal + training))
    labels = '[labels]\npath = "l"\nkey = "account"\ncolumn = "y"\nhorizon_days = 30\n'
    text = mistakes_of(write(minimal + training + labels))
    assert "training: 2026-03-15 is measured, but labels up to 2026-03-31 were trained on" in text


def test_a_limit_of_zero_is_a_limit(write: Callable[[str], Path], minimal: str):
    profile = load_profile(write(minimal + "[quality]\nmax_row_change = 0\nmax_null_rate_change = 0.0\n"))
    assert profile.quality.max_row_change == 0
    assert profile.quality.max_null_rate_change == 0


def test_infinity_is_no_limit(write: Callable[[str], Path], minimal: str):
    assert "quality.max_row_change" in mistakes_of(write(minimal + "[quality]\nmax_row_change = inf\n"))
