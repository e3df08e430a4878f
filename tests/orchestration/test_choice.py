"""A day scored by today's model, by the one that was stable when it was due, or by a given one."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from profile_assets.errors import DataError
from profile_assets.models.registry import set_first_stable, set_pointer

EARLY, LATE = dt.date(2026, 1, 5), dt.date(2026, 1, 20)
FIRST_MADE, SECOND_MADE = "2026-01-02T00:00:00+00:00", "2026-01-12T00:00:00+00:00"


@pytest.fixture
def two_models(small: Any) -> tuple[str, str]:
    """One that was stable from the third of January, and one from the thirteenth; users of two days."""
    for day in (EARLY, LATE):
        small.put_users(day)
    first, second = small.put_model(1, made_at=FIRST_MADE), small.put_model(2, made_at=SECOND_MADE)
    at = dt.datetime(2026, 1, 3, tzinfo=dt.UTC)
    set_first_stable(small.layout, first, "the first", now=at)
    set_pointer(small.layout, "stable", second, by="ana", why="better", now=at + dt.timedelta(days=10))
    return first, second


def bundles(small: Any, day: dt.date) -> set[str]:
    return {row["bundle_id"] for row in small.rows(day).values()}


def test_as_of_gives_each_day_the_model_of_its_time_and_each_row_says_which(small: Any, two_models: tuple[str, str]):
    for day, bundle_id in zip((EARLY, LATE), two_models, strict=True):
        small.session.score(day, model="as-of")
        assert bundles(small, day) == {bundle_id}
        shown = small.shown("user_scores")
        assert (shown["model"], shown["bundle_id"], shown["model_did_not_exist_yet"]) == ("as-of", bundle_id, False)


def test_by_default_todays_model_scores_and_the_day_shows_that_it_did_not_exist_yet(
    small: Any, two_models: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    small.session.score(EARLY)
    assert bundles(small, EARLY) == {two_models[1]}
    shown = small.shown("user_scores")
    assert (shown["model"], shown["model_did_not_exist_yet"], shown["model_made_at"]) == ("stable", True, SECOND_MADE)

    from profile_assets.commands import status, tour

    monkeypatch.setattr(tour.console, "width", 200)
    monkeypatch.setenv("PROFILE_DATA", str(small.layout.root))
    monkeypatch.setenv("PROFILE_CONFIG", str(small.layout.root / "small.toml"))
    tour.show(None)
    assert "the model did not exist yet" in capsys.readouterr().out
    status.status(1000, as_json=True)
    states = {one["day"]: one for one in json.loads(capsys.readouterr().out)}
    assert [day for day, one in states.items() if one["model_did_not_exist_yet"]] == [str(EARLY)]
    small.session.score(EARLY, model=two_models[0])
    assert (bundles(small, EARLY), small.shown("user_scores")["model_did_not_exist_yet"]) == ({two_models[0]}, False)
    tour.show(None)
    assert "did not exist yet" not in capsys.readouterr().out


def test_a_day_before_the_first_model_stops_and_names_it_and_what_to_do(small: Any, two_models: tuple[str, str]):
    day = dt.date(2026, 1, 1)
    small.put_users(day)
    with pytest.raises(DataError, match=f"the first one, {two_models[0]}, became stable at 2026-01-03") as found:
        small.session.score(day, model="as-of")
    assert "--model stable" in found.value.what
