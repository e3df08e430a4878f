from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from profile_assets.errors import BundleError, PermanentError
from profile_assets.models.settings import NetworkSettings, TrainingSettings, check_split


def training(**changes: Any) -> TrainingSettings:
    fields = {
        "first_day": dt.date(2026, 1, 1),
        "last_day": dt.date(2026, 1, 16),
        "selection_day": dt.date(2026, 2, 14),
        "report_days": (dt.date(2026, 3, 1),),
    }
    return TrainingSettings(**{**fields, **changes})


def test_training_days_step_from_the_first_and_never_pass_the_last() -> None:
    assert [day.day for day in training().training_days] == [1, 8, 15]
    assert [day.day for day in training(last_day=dt.date(2026, 1, 15)).training_days] == [1, 8, 15]


def test_a_split_that_is_clear_of_the_labels_is_accepted() -> None:
    check_split(training(), horizon_days=30)


def test_days_measured_before_the_last_training_label_is_complete_are_all_refused() -> None:
    settings = training(selection_day=dt.date(2026, 2, 13), report_days=(dt.date(2026, 1, 20), dt.date(2026, 2, 14)))
    with pytest.raises(PermanentError, match="2026-01-20, 2026-02-13: measured before 2026-02-14"):
        check_split(settings, horizon_days=30)


def test_the_day_that_chooses_the_epoch_is_not_reported_as_unseen() -> None:
    with pytest.raises(PermanentError, match="chooses the epoch"):
        check_split(training(report_days=(dt.date(2026, 2, 14),)), horizon_days=30)


def test_training_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(PermanentError, match="has no day"):
        check_split(training(last_day=dt.date(2025, 12, 1)), horizon_days=30)


def test_network_settings_pass_through_json() -> None:
    settings = NetworkSettings(architecture="deepfm", embedding_dim=8, hidden=(32,), dropout=0.25)
    assert NetworkSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "transformer"},
        {"hidden": []},
        {"hidden": [0]},
        {"hidden": ["128"]},
        {"hidden": [10**9]},
        {"hidden": None},
        {"embedding_dim": -1},
        {"dropout": 1.0},
        {"dropout": "0.5"},
        {"surprise": 1},
    ],
)
def test_settings_that_no_network_can_be_built_from_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BundleError, match="no network can be built"):
        NetworkSettings.from_json({**NetworkSettings().to_json(), **change})
