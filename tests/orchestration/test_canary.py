"""A share of the users on another bundle, from the registry's pointer to what readers see, and back."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from profile_assets.cli import app
from profile_assets.errors import DataError
from profile_assets.models.registry import read_pointer, set_first_stable, set_pointer
from profile_assets.storage.published import read_part_record
from profile_assets.storage.share import in_share
from profile_assets.tracing.trace import Question, trace

FIRST, SECOND, THIRD = (dt.date(2026, 1, day) for day in (5, 6, 7))
FAR = dt.date(2026, 2, 5)  # no day before it is near enough to be compared with
SHARE = "\n[canary]\nshare = 0.25\n"


@pytest.fixture
def small(make_small: Callable[[str], Any]) -> Any:
    small = make_small(SHARE)
    for day in (FIRST, SECOND, THIRD):
        small.put_users(day)
    set_first_stable(small.layout, small.put_model(1), "the first")
    return small


def let_in(small: Any, bundle_id: str) -> None:
    set_pointer(small.layout, "canary", bundle_id, by="ana", why="is it better?")


def command(small: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setenv("PROFILE_DATA", str(small.layout.root))
    monkeypatch.setenv("PROFILE_CONFIG", str(small.layout.root / "small.toml"))
    monkeypatch.setenv("COLUMNS", "200")
    return CliRunner().invoke(app, list(arguments))


def traces(small: Any, user: str) -> dict[str, Any]:
    deployment = small.session.deployment
    rooms = {"source": deployment.source, "contract": deployment.contract, "scoring": deployment.scoring}
    return trace(Question(layout=small.layout, user=user, day=FIRST, **rooms))


def test_its_users_get_its_scores_and_all_others_the_same_bits_as_without_it(small: Any):
    stable, other = small.put_model(1), small.put_model(2)
    small.session.score(FIRST)
    alone = small.rows(FIRST)
    assert "canary_rows" not in small.shown("user_scores")
    small.put_users(FAR)
    small.session.score(FAR, model=other)
    theirs = small.rows(FAR)
    let_in(small, other)
    small.session.score(FIRST)
    found = small.rows(FIRST)
    users = pa.array(sorted(found))
    taken = {user for user, is_in in zip(users.to_pylist(), in_share(users, 0.25, "canary"), strict=True) if is_in}
    assert 50 < len(taken) < 150
    for user, row in found.items():
        is_in = user in taken
        assert (row["bundle_id"], row["route"]) == ((other, "canary") if is_in else (stable, "full"))
        assert row["score"] == (theirs if is_in else alone)[user]["score"]
    record = read_part_record(small.layout, FIRST)
    assert record is not None
    assert record.canary == {"bundle_id": other, "share": 0.25, "salt": "canary", "rows": len(taken)}
    shown = small.shown("user_scores")
    assert (shown["canary_bundle_id"], shown["canary_rows"], shown["bundle_id"]) == (other, len(taken), stable)
    assert len(shown["canary_scores"]) < 1000
    assert shown["canary_psi"] >= 0
    traced = traces(small, min(taken))
    assert (traced["bundle"]["id"], traced["recomputed"]["agreement"]) == (other, "equal")
    small.session.reconcile(FIRST)
    assert small.evaluation("reconciled").passed, "each user is held against the bundle that scored it"
    again = small.rows(FIRST)
    assert {user: row["published_at"] for user, row in again.items()} == {
        u: r["published_at"] for u, r in found.items()
    }


def test_a_day_that_asks_for_a_model_has_no_canary(small: Any):
    other = small.put_model(2)
    let_in(small, other)
    small.session.score(FIRST, model=small.put_model(1))
    assert {row["route"] for row in small.rows(FIRST).values()} == {"full"}


def test_its_users_are_judged_by_themselves_and_the_day_stops_with_what_to_do(small: Any):
    small.session.score(FIRST)
    before = small.rows(FIRST)
    let_in(small, small.put_model(2, shift=0.7))
    with pytest.raises(DataError, match=r"PSI since 2026-01-05 of score \(canary\) is") as found:
        small.session.score(SECOND)
    assert "score_drift (fail)" in found.value.what
    assert "models canary --withdraw" in found.value.what
    assert read_part_record(small.layout, SECOND) is None
    assert small.rows(FIRST) == before
    set_pointer(small.layout, "canary", None, by="ana", why="it drifts")
    small.session.score(SECOND)
    assert {row["route"] for row in small.rows(SECOND).values()} == {"full"}


def test_the_check_compares_both_groups_and_by_the_labels_once_these_are_known(small: Any):
    small.session.compare_canary()
    assert small.evaluation("canary").description == "no published day has a share of the canary's"
    other = small.put_model(1, shift=0.01)
    let_in(small, other)
    for day in (FIRST, SECOND):
        small.session.score(day)
    small.session.compare_canary()
    found = small.evaluation("canary")
    assert found.passed, found.description
    (stable_row, canary_row) = (row.data for row in found.metadata["groups"].records)
    assert canary_row["bundle"] == other
    assert stable_row["rows"] + canary_row["rows"] == 400
    assert canary_row["auc"] == "—"

    rows = small.rows(FIRST)
    draw = np.random.default_rng(3)
    labels = [float(draw.random() < row["score"]) for row in rows.values()]
    small.put_labels(FIRST, pa.table({"user_id": list(rows), "bought": labels}))
    small.session.compare_canary()
    records = [row.data for row in small.evaluation("canary").metadata["groups"].records]
    assert [row["day"] for row in records] == [str(SECOND)] * 2 + [str(FIRST)] * 2
    assert all(0 <= row["auc"] <= 1 and row["log_loss"] > 0 and row["labelled"] > 50 for row in records[2:])


def test_scores_that_did_worse_than_chance_allows_fail_the_check(small: Any):
    let_in(small, small.put_model(1, shift=0.01))
    small.session.score(FIRST)
    rows = small.rows(FIRST)
    middle = float(np.median([row["score"] for row in rows.values()]))

    def label(row: dict[str, Any]) -> float:
        is_high = row["score"] > middle
        return float(is_high != (row["route"] == "canary"))  # the canary's users do the opposite

    small.put_labels(FIRST, pa.table({"user_id": list(rows), "bought": [label(row) for row in rows.values()]}))
    small.session.compare_canary()
    found = small.evaluation("canary")
    told = found.description or ""
    assert not found.passed, told
    assert "which is more than chance" in told
    assert "models canary --withdraw" in told


def test_it_is_let_in_promoted_or_withdrawn_in_one_command_each(small: Any, monkeypatch: pytest.MonkeyPatch):
    other = small.put_model(2)
    done = command(small, monkeypatch, "models", "canary", other, "--why", "try")
    assert f"canary is {other}" in done.stdout, done.output
    gone = command(small, monkeypatch, "models", "canary", "--withdraw", "--why", "worse")
    assert f"there is no canary; it was {other}" in gone.stdout, gone.output
    assert read_pointer(small.layout, "canary") is None
    both = command(small, monkeypatch, "models", "canary", other, "--withdraw", "--why", "?")
    assert "give a bundle's id or --withdraw" in str(both.exception)
    command(small, monkeypatch, "models", "canary", other, "--why", "try again")
    held = command(small, monkeypatch, "models", "promote", "canary", "--why", "better")
    assert "is not promoted: compared (not_evaluated)" in str(held.exception)
    promoted = command(small, monkeypatch, "models", "promote", "canary", "--why", "better", "--force")
    assert f"stable is {other}" in promoted.stdout, promoted.output
    assert read_pointer(small.layout, "canary") is None, "what is stable is tried beside nothing"
    history = json.loads(command(small, monkeypatch, "models", "history", "--json").stdout)
    assert [(one["pointer"], one["action"]) for one in history][-3:] == [
        ("previous", "forced promote"),
        ("stable", "forced promote"),
        ("canary", "promote"),
    ]


def test_a_canary_whose_bundle_is_gone_stops_the_day_and_says_so(small: Any):
    other = small.put_model(2)
    let_in(small, other)
    small.layout.bundle(other).rename(small.layout.root / "away")
    with pytest.raises(DataError, match=f"the canary: the bundle {other} is not in .* models canary --withdraw"):
        small.session.score(FIRST)
