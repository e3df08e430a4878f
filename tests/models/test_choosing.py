"""Which bundle scores a day: today's, the one that was stable when the day was due, or a given one."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from profile_assets.errors import BundleError
from profile_assets.models.bundle_files import FILES, PROVENANCE, SEAL, seal
from profile_assets.models.choosing import choose, made_at_of, require_model
from profile_assets.models.registry import set_first_stable, set_pointer
from profile_assets.storage.layout import Layout

START = dt.datetime(2026, 1, 5, 4, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path, name="purchase_30d")


def put(layout: Layout, number: int, made_at: str | None) -> str:
    """A bundle that says when it was made, sealed as one is."""
    contents = {name: str(number).encode() for name in FILES}
    contents[PROVENANCE] = json.dumps({} if made_at is None else {"made_at": made_at}).encode()
    bundle_id, record = seal(contents)
    layout.bundle(bundle_id).mkdir(parents=True)
    for name, content in {**contents, SEAL: json.dumps(record).encode()}.items():
        (layout.bundle(bundle_id) / name).write_bytes(content)
    return bundle_id


@pytest.fixture
def bundles(layout: Layout) -> tuple[str, str]:
    """Two that were stable one after the other: the second from ten days later on."""
    first, second = put(layout, 1, "2026-01-04T12:00:00+00:00"), put(layout, 2, "2026-01-14T12:00:00+00:00")
    set_first_stable(layout, first, "the first", now=START)
    set_pointer(layout, "stable", second, by="ana", why="better", now=START + 10 * DAY)
    return first, second


def test_a_day_gets_the_bundle_that_was_stable_when_it_was_due(layout: Layout, bundles: tuple[str, str]):
    chosen = [choose(layout, "as-of", START + days * DAY) for days in (0, 9, 10, 11)]
    assert [one.bundle_id for one in chosen] == [bundles[0], bundles[0], bundles[1], bundles[1]]
    assert {one.is_later for one in chosen} == {False}


def test_or_todays_and_says_that_it_did_not_exist_yet(layout: Layout, bundles: tuple[str, str]):
    chosen = choose(layout, "stable", START + 3 * DAY)
    assert (chosen.bundle_id, chosen.is_later, chosen.path) == (bundles[1], True, layout.bundle(bundles[1]))


def test_or_a_given_one(layout: Layout, bundles: tuple[str, str]):
    assert choose(layout, bundles[0], START + 30 * DAY).bundle_id == bundles[0]


def test_where_nothing_was_stable_the_first_bundle_and_the_remedy_are_named(layout: Layout, bundles: tuple[str, str]):
    with pytest.raises(BundleError, match=f"first one, {bundles[0]}, became stable at 2026-01-05T04:00") as found:
        choose(layout, "as-of", START - DAY)
    assert f"--model {bundles[0]}" in found.value.remedy


def test_an_empty_registry_has_no_bundle_for_any_day(layout: Layout):
    with pytest.raises(BundleError, match="no stable bundle yet"):
        choose(layout, "as-of", START)


def test_a_bundle_that_was_removed_is_missed(layout: Layout, bundles: tuple[str, str]):
    layout.bundle(bundles[0]).rename(layout.root / "away")
    for asked in ("as-of", bundles[0]):
        with pytest.raises(BundleError, match="is not in"):
            choose(layout, asked, START)


@pytest.mark.parametrize("asked", ["newest", "", "b-1", "canary"])
def test_anything_else_names_no_model(layout: Layout, asked: str):
    with pytest.raises(BundleError, match="names no model"):
        require_model(asked)
    with pytest.raises(BundleError, match="names no model"):
        choose(layout, asked, START)


@pytest.mark.parametrize("told", [None, "yesterday", "2026-01-04T12:00:00"])
def test_a_bundle_that_does_not_say_when_it_was_made_is_not_called_later(layout: Layout, told: str | None):
    bundle_id = put(layout, 3, told)
    assert made_at_of(layout, bundle_id) is None
    assert choose(layout, bundle_id, START).is_later is None
