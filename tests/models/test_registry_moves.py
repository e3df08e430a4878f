"""Promotions, rollbacks, and the log that later answers what was stable when."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from profile_assets.errors import BundleError, CorruptError
from profile_assets.models.bundle_files import SEAL
from profile_assets.models.log_set_aside import set_log_aside
from profile_assets.models.registry import (
    bundle_ids,
    history,
    last_stable,
    read_pointer,
    rollback,
    set_first_stable,
    set_pointer,
    stable_at,
    stable_bundle,
)
from profile_assets.models.registry_log import read_log
from profile_assets.storage.layout import Layout

IDS = tuple(f"b-{place:016x}" for place in range(1, 5))
ONE, TWO, THREE, FOUR = IDS
START = dt.datetime(2026, 1, 5, 2, 30, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(root=tmp_path, name="purchase_30d")
    for bundle_id in IDS:
        layout.bundle(bundle_id).mkdir(parents=True)
        (layout.bundle(bundle_id) / SEAL).write_text("{}")
    return layout


def promote(layout: Layout, bundle_id: str, hours: int, **more: str) -> None:
    set_pointer(layout, "stable", bundle_id, by="ana", why="better", action="promote", now=START + hours * HOUR, **more)


def pointed(layout: Layout) -> dict[str, str | None]:
    found = {name: read_pointer(layout, name) for name in ("stable", "previous", "canary", "shadow")}
    return {name: pointer.bundle_id for name, pointer in found.items() if pointer is not None}


def test_a_promotion_keeps_what_was_stable_and_a_rollback_exchanges_them(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    assert pointed(layout) == {"stable": ONE}
    promote(layout, TWO, 1)
    assert pointed(layout) == {"stable": TWO, "previous": ONE}
    back = rollback(layout, by="ben", why="refunds doubled", now=START + 2 * HOUR)
    assert (back.bundle_id, back.before, back.action) == (ONE, TWO, "rollback")
    assert pointed(layout) == {"stable": ONE, "previous": TWO}
    rollback(layout, by="ben", why="it was not the model", now=START + 3 * HOUR)
    assert pointed(layout) == {"stable": TWO, "previous": ONE}


def test_the_log_says_who_when_and_why(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    promote(layout, TWO, 1)
    last = history(layout)[-1]
    assert (last.pointer, last.bundle_id, last.before) == ("stable", TWO, ONE)
    assert (last.by, last.why, last.since) == ("ana", "better", "2026-01-05T03:30:00+00:00")
    assert [change.pointer for change in history(layout)] == ["stable", "previous", "stable"]


def test_what_was_stable_at_any_moment(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    promote(layout, TWO, 1)
    rollback(layout, by="ben", why="worse", now=START + 2 * HOUR)
    moments = {-1: None, 0: ONE, 0.5: ONE, 1: TWO, 1.9: TWO, 2: ONE, 99: ONE}
    for hours, expected in moments.items():
        found = stable_at(layout, START + hours * HOUR)
        assert (found.bundle_id if found else None) == expected, hours


def test_a_clock_that_was_set_back_puts_no_change_before_the_one_it_follows(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    promote(layout, TWO, -5)
    assert [change.at for change in history(layout)] == [START] * 3
    found = stable_at(layout, START)
    assert found is not None
    assert found.bundle_id == TWO


def test_what_is_stable_already_is_not_promoted_again(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first")
    assert set_pointer(layout, "stable", ONE, by="ana", why="again") is None
    assert len(history(layout)) == 1
    assert pointed(layout) == {"stable": ONE}


def test_canary_and_shadow_are_set_and_cleared_and_move_nothing_else(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first")
    set_pointer(layout, "canary", TWO, by="ana", why="to try")
    set_pointer(layout, "shadow", THREE, by="ana", why="to compare")
    assert pointed(layout) == {"stable": ONE, "canary": TWO, "shadow": THREE}
    cleared = set_pointer(layout, "canary", None, by="ana", why="done")
    assert cleared is not None
    assert (cleared.before, cleared.bundle_id) == (TWO, None)
    assert pointed(layout) == {"stable": ONE, "shadow": THREE}
    assert set_pointer(layout, "canary", None, by="ana", why="again") is None


@pytest.mark.parametrize(
    ("name", "bundle_id", "why", "message"),
    [
        ("stable", None, "x", "cannot point to nothing"),
        ("latest", TWO, "x", "no pointer of the registry"),
        ("stable", "b-ffffffffffffffff", "x", "is not in"),
        ("stable", "../../etc", "x", "no bundle id"),
        ("stable", TWO, " ", "for a reason"),
    ],
)
def test_a_move_that_makes_no_sense_changes_nothing(
    layout: Layout, name: str, bundle_id: str | None, why: str, message: str
) -> None:
    set_first_stable(layout, ONE, "the first")
    with pytest.raises(BundleError, match=message):
        set_pointer(layout, name, bundle_id, by="ana", why=why)
    assert pointed(layout) == {"stable": ONE}
    assert len(history(layout)) == 1


def test_what_was_found_against_another_stable_bundle_promotes_nothing(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first")
    promote(layout, TWO, 1)
    with pytest.raises(BundleError, match=f"stable has become {TWO}"):
        promote(layout, THREE, 2, expected=ONE)
    assert pointed(layout)["stable"] == TWO


def test_with_nothing_before_there_is_nothing_to_roll_back_to(layout: Layout) -> None:
    with pytest.raises(BundleError, match="nothing to roll back to"):
        rollback(layout, by="ana", why="x")
    set_first_stable(layout, ONE, "the first")
    with pytest.raises(BundleError, match="nothing to roll back to"):
        rollback(layout, by="ana", why="x")


def test_a_bundle_that_is_gone_is_not_rolled_back_to(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first")
    promote(layout, TWO, 1)
    (layout.bundle(ONE) / SEAL).unlink()
    with pytest.raises(BundleError, match=f"{ONE} is not in"):
        rollback(layout, by="ana", why="x")
    assert pointed(layout)["stable"] == TWO


def test_a_crash_between_the_pointer_and_the_log_loses_no_line(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    promote(layout, TWO, 1)
    whole = history(layout)
    lines = layout.registry_log.read_bytes().splitlines(keepends=True)
    layout.registry_log.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # cut in the middle of the last line
    assert history(layout) == whole
    promote(layout, THREE, 2)
    assert history(layout)[: len(whole)] == whole
    assert len(layout.registry_log.read_bytes().splitlines()) == len(history(layout)) == 5


def test_a_registry_from_before_the_log_was_kept_has_its_first_line(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    layout.registry_log.unlink()
    assert stable_at(layout, START) is not None
    promote(layout, TWO, 1)
    assert [change.bundle_id for change in history(layout) if change.pointer == "stable"] == [ONE, TWO]


def test_a_line_of_the_log_that_is_none_is_told_and_never_left_out(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    layout.registry_log.write_bytes(b"{}\n" + layout.registry_log.read_bytes())
    with pytest.raises(CorruptError, match="line 1 cannot be understood"):
        history(layout)


def test_a_damaged_log_is_set_aside_by_somebody_and_moves_go_on(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    promote(layout, TWO, 1)
    set_pointer(layout, "canary", THREE, by="ana", why="better?", now=START + 2 * HOUR)
    damaged = b"\x00\n" + layout.registry_log.read_bytes()
    layout.registry_log.write_bytes(damaged)
    with pytest.raises(CorruptError, match="models set-aside-log"):
        rollback(layout, by="ana", why="worse")
    before = pointed(layout)
    aside = set_log_aside(layout, by="bo", why="line 1 is lost", now=START + 3 * HOUR)
    assert aside.read_bytes() == damaged
    assert "20260105T0530" in aside.name
    assert pointed(layout) == before
    first = read_log(layout.registry_log)[0]
    assert (first.action, first.by, first.bundle_id) == ("set aside", "bo", TWO)
    assert first.evidence["log"] == aside.name
    assert "line 1" in first.evidence["problem"]
    back = rollback(layout, by="ana", why="worse", now=START + 4 * HOUR)
    assert (back.before, back.bundle_id) == (TWO, ONE)
    told = [(change.pointer, change.bundle_id) for change in history(layout)]
    assert told[0] == ("stable", TWO)
    assert sorted(told[1:3]) == [("canary", THREE), ("previous", ONE)]
    assert told[3:] == [("previous", TWO), ("stable", ONE)]
    assert stable_at(layout, START) is None  # the old log alone can tell, and nothing is guessed
    assert stable_at(layout, START + 2 * HOUR).bundle_id == TWO
    with pytest.raises(BundleError, match="can be read, and is not set aside"):
        set_log_aside(layout, by="bo", why="again")


def test_a_log_is_not_set_aside_without_a_reason_or_where_nothing_else_says_what_is_stable(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first", now=START)
    layout.registry_log.write_bytes(b"\x00\n")
    with pytest.raises(BundleError, match="for a reason"):
        set_log_aside(layout, by="bo", why=" ")
    layout.pointer("stable").unlink()
    with pytest.raises(BundleError, match="nothing but the damaged log says"):
        set_log_aside(layout, by="bo", why="lost")
    assert layout.registry_log.read_bytes() == b"\x00\n"


def test_promotions_at_once_leave_a_log_without_a_gap(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: set_pointer(layout, "stable", IDS[place % 4], by="x", why=str(place)), range(8)))
    moves = [change for change in history(layout) if change.pointer == "stable"]
    assert all(later.before == earlier.bundle_id for earlier, later in pairwise(moves))
    assert moves[-1].bundle_id == pointed(layout)["stable"]
    assert moves[-1].before == pointed(layout)["previous"]


def test_the_bundles_that_are_there(layout: Layout) -> None:
    (layout.models / "b-notone").mkdir()
    assert bundle_ids(layout) == list(IDS)


def test_a_pointer_that_was_removed_is_no_empty_registry(layout: Layout) -> None:
    set_first_stable(layout, ONE, "first")
    set_pointer(layout, "stable", TWO, by="ada", why="better")
    layout.pointer("stable").unlink()
    assert last_stable(layout) == TWO
    with pytest.raises(BundleError, match=f"the log says that {TWO} was stable"):
        stable_bundle(layout)
    assert not set_first_stable(layout, ONE, "first again")
    set_pointer(layout, "stable", ONE, by="ada", why="back")
    pointer = read_pointer(layout, "previous")
    assert pointer is not None
    assert pointer.bundle_id == TWO
    assert history(layout)[-1].before == TWO
