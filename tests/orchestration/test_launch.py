"""Restated days are all run again, whatever becomes of one of them."""

from __future__ import annotations

import datetime as dt

import pytest

from profile_assets.errors import DataError, StorageError
from profile_assets.orchestration.launch import Session, redo_days
from profile_assets.profile import load_deployment
from profile_assets.profile.loading import default_profile

DAYS = [dt.date(2026, 1, 5), dt.date(2026, 1, 6), dt.date(2026, 1, 7)]


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ({DAYS[0]: StorageError}, StorageError),
        ({DAYS[0]: DataError}, DataError),
        ({DAYS[0]: StorageError, DAYS[1]: DataError}, DataError),
        ({DAYS[0]: StorageError, DAYS[2]: StorageError}, StorageError),
    ],
)
def test_every_day_is_run_again_before_the_failures_are_told(tmp_path, monkeypatch, errors, kind) -> None:
    import dagster as dg

    tried = []

    def score(_: Session, day: dt.date) -> None:
        tried.append(day)
        if day in errors:
            raise errors[day]("the run failed", remedy="mend it")

    monkeypatch.setattr(Session, "score", score)
    deployment = load_deployment(default_profile(), environment={"PROFILE_DATA": str(tmp_path)})
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(kind) as told:
        redo_days(deployment, instance, DAYS)
    assert tried == DAYS
    assert all(str(day) in told.value.what for day in errors)
