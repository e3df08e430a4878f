from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from profile_assets.errors import BundleError
from profile_assets.models.bundle_files import SEAL
from profile_assets.models.registry import Pointer, read_pointer, set_first_stable, stable_bundle
from profile_assets.storage.layout import Layout

ONE, OTHER = "b-0000000000000001", "b-0000000000000002"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(root=tmp_path, name="purchase_30d")
    for bundle_id in (ONE, OTHER):
        layout.bundle(bundle_id).mkdir(parents=True)
        (layout.bundle(bundle_id) / SEAL).write_text("{}")
    return layout


def test_the_first_bundle_becomes_stable_and_the_second_does_not(layout: Layout) -> None:
    now = dt.datetime(2026, 1, 5, 2, 30, tzinfo=dt.UTC)
    assert set_first_stable(layout, ONE, "the first", now=now)
    assert not set_first_stable(layout, OTHER, "the second")
    assert read_pointer(layout, "stable") == Pointer(
        bundle_id=ONE, since="2026-01-05T02:30:00+00:00", by="training", why="the first"
    )
    assert stable_bundle(layout) == layout.bundle(ONE)


def test_of_two_that_come_first_at_once_one_becomes_stable(layout: Layout) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda place: set_first_stable(layout, (ONE, OTHER)[place % 2], str(place)), range(8)))
    assert sum(won) == 1
    pointer = read_pointer(layout, "stable")
    assert pointer is not None
    assert pointer.why == str(won.index(True))


def test_an_empty_registry_says_what_to_do(layout: Layout) -> None:
    assert read_pointer(layout, "stable") is None
    with pytest.raises(BundleError, match="no stable bundle yet -> train one"):
        stable_bundle(layout)


def test_a_bundle_that_is_not_there_is_never_pointed_to(layout: Layout) -> None:
    with pytest.raises(BundleError, match="is not in"):
        set_first_stable(layout, "b-0000000000000003", "gone")
    assert read_pointer(layout, "stable") is None


def test_a_pointer_to_a_bundle_that_was_removed_says_so(layout: Layout) -> None:
    set_first_stable(layout, ONE, "the first")
    (layout.bundle(ONE) / SEAL).unlink()
    with pytest.raises(BundleError, match=f"{ONE} is not in"):
        stable_bundle(layout)


@pytest.mark.parametrize("bundle_id", ["../../elsewhere", "b-0000000000000001/..", "", "b-XYZ", 3, None])
def test_a_pointer_that_leads_elsewhere_is_refused(layout: Layout, bundle_id: object) -> None:
    value = {"format": 1, "bundle_id": bundle_id, "since": "", "by": "", "why": ""}
    layout.pointer("stable").write_text(json.dumps(value))
    with pytest.raises(BundleError, match="no bundle id"):
        stable_bundle(layout)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 2}'])
def test_a_pointer_that_cannot_be_understood_is_not_an_empty_registry(layout: Layout, text: str) -> None:
    layout.pointer("stable").write_text(text)
    with pytest.raises(BundleError, match="cannot be understood"):
        read_pointer(layout, "stable")
    with pytest.raises(BundleError, match="cannot be understood"):
        set_first_stable(layout, ONE, "over it")


def test_reading_the_registry_and_the_settings_needs_no_torch() -> None:
    code = (
        "import sys, profile_assets.models.registry, profile_assets.models.settings, profile_assets.features.encode;"
        "assert not {'torch', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
