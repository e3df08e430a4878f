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


def test_a_day_outside_of_the_profile_is_refused_by_name(tmp_path) -> None:
    import dagster as dg

    from profile_assets.orchestration.build import build_definitions

    deployment = load_deployment(default_profile(), environment={"PROFILE_DATA": str(tmp_path)})
    with dg.DagsterInstance.ephemeral() as instance:
        session = Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance)
        for run in (session.shadow, session.score):
            with pytest.raises(DataError, match="2199-01-01 is no day of purchase_30d: its days go from"):
                run(dt.date(2199, 1, 1))
