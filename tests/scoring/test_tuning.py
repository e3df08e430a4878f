"""The shape of a GPU's forwards: found once, written down, used by every run after that."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.scoring.day import ShardDone, score_day
from profile_assets.scoring.engines.here import score_here
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardResult, ShardTask
from profile_assets.scoring.tuning import find_rows, knee, largest, settled
from profile_assets.storage.layout import Layout
from profile_assets.storage.records import Manifest

FINDING = ScoringSettings(batch_rows=256, device="cpu", finds_batch=True, workers=1)


@given(fixed=st.floats(1e-5, 1e-2), per_row=st.floats(1e-9, 1e-6))
def test_the_knee_is_where_doubling_brings_less_than_a_tenth(fixed: float, per_row: float) -> None:
    """A device that takes `fixed` a batch and `per_row` a row gains (f + b p) * 2 / (f + 2 b p) by doubling b."""

    def gain(rows: int) -> float:
        return 2 * (fixed + rows * per_row) / (fixed + 2 * rows * per_row)

    found = knee(lambda rows: fixed + rows * per_row, first=256)
    assert found == 256 or gain(found // 2) >= 1.1 * (1 - 1e-9)
    assert found == 4_194_304 or gain(found) < 1.1 * (1 + 1e-9)


@pytest.mark.parametrize(("held", "found"), [(100, 256), (256, 256), (5000, 4096), (8192, 8192)])
def test_memory_ends_the_search(held: int, found: int) -> None:
    def seconds(rows: int) -> float:
        if rows > held:
            raise torch.OutOfMemoryError(f"{rows} rows")
        return 1.0

    assert knee(seconds, first=256) == found


def test_what_was_found_is_found_once_for_a_bundle(bundle_path: Path, tmp_path: Path) -> None:
    layout, asked = Layout(root=tmp_path, name="p"), []

    def find(bundle: Path, settings: ScoringSettings) -> int:
        asked.append((bundle, settings.batch_rows))
        return 1024

    for _ in range(2):
        assert settled(layout, bundle_path, FINDING, find=find).batch_rows == 1024
    assert asked == [(bundle_path, 256)]
    settled(layout, bundle_path.with_name("b-other"), FINDING, find=find)
    assert len(asked) == 2
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (layout.home / "tuning").iterdir()]
    assert {(record["bundle"], record["device"]) for record in records} == {
        (bundle_path.name, "cpu"),
        ("b-other", "cpu"),
    }


def test_a_damaged_record_is_measured_again(bundle_path: Path, tmp_path: Path) -> None:
    layout = Layout(root=tmp_path, name="p")
    settled(layout, bundle_path, FINDING, find=lambda *_: 1024)
    (path,) = (layout.home / "tuning").iterdir()
    path.write_text("{", encoding="utf-8")
    assert settled(layout, bundle_path, FINDING, find=lambda *_: 512).batch_rows == 512
    assert settled(layout, bundle_path, FINDING, find=lambda *_: 2048).batch_rows == 512


def test_nothing_is_looked_for_on_a_processor_or_where_a_shape_is_given(bundle_path: Path, tmp_path: Path) -> None:
    layout = Layout(root=tmp_path, name="p")
    given_one = ScoringSettings(batch_rows=512, device="cpu")
    assert settled(layout, bundle_path, given_one, find=lambda *_: 1024) == given_one
    assert settled(layout, bundle_path, FINDING) == ScoringSettings(batch_rows=256, device="cpu", workers=1)
    assert not (layout.home / "tuning").exists()


def test_the_search_runs_on_what_is_at_hand(bundle_path: Path) -> None:
    rows = find_rows(bundle_path, ScoringSettings(batch_rows=256, device="cpu"))
    assert rows >= 256
    assert rows % 256 == 0


def test_a_day_says_which_shards_were_scored_in_smaller_batches(
    layout: Layout,
    day: dt.date,
    deal: Callable[[pa.Table, int], Manifest],
    make_users: Callable[..., pa.Table],
    bundle_path: Path,
) -> None:
    deal(make_users(600), 2)
    told: list[ShardDone] = []

    def short_of_memory(tasks: Sequence[ShardTask]) -> Generator[ShardResult, None, None]:
        first, second = score_here(tasks)
        yield first
        yield dataclasses.replace(second, batch_rows=256)

    settings = ScoringSettings(batch_rows=512, device="cpu", workers=1)
    staged = score_day(layout, day, bundle_path, settings, progress=told.append, engine=short_of_memory)
    assert [one.halved_to for one in told] == [None, 256]
    assert staged.manifest.notes["batch_rows"] == [256, 512]


def test_a_largest_shape_bounds_what_is_looked_for_and_what_is_used(bundle_path: Path, tmp_path: Path) -> None:
    layout, asked = Layout(root=tmp_path, name="p"), []

    def find(_: Path, settings: ScoringSettings) -> int:
        asked.append(largest(settings))
        return min(8192, largest(settings))

    def rows(limit: int | None) -> int:
        return settled(layout, bundle_path, dataclasses.replace(FINDING, max_batch_rows=limit), find=find).batch_rows

    assert (rows(1024), rows(1024)) == (1024, 1024)
    assert asked == [1024]
    assert rows(None) == 8192  # more is allowed now, and was not looked for before
    assert rows(2048) == 2048
    assert asked == [1024, 4_194_304]
