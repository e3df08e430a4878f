"""Batches on their way through a device: several at once, none mixed up, and memory that ends half-way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from profile_assets.errors import ScoringError
from profile_assets.features.encode import encode
from profile_assets.models.bundle import load_bundle
from profile_assets.scoring.lanes import CpuLane, CudaLane, Forward, Lane, make_lanes
from profile_assets.scoring.scorer import BATCH_ROWS, UNKNOWN, Scorer
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.parquet import read_footer

MakeUsers = Callable[..., pa.Table]


class Late(CpuLane):
    """A device that computes only when it is waited for, which shows whoever fills a lane too soon."""

    def __init__(self, log: list[str], name: str, *shape: int, forward: Forward) -> None:
        super().__init__(forward, *shape)
        self.log, self.name = log, name

    def start(self) -> None:
        self.log.append(f"start {self.name}")

    def finish(self) -> np.ndarray:
        self.log.append(f"finish {self.name}")
        with torch.inference_mode():
            super().start()
        return super().finish()


def late_lanes(log: list[str], count: int) -> Callable[..., Sequence[Lane]]:
    def make(device: str, forward: Forward, *shape: int) -> Sequence[Lane]:
        del device
        return [Late(log, "ab"[place], *shape, forward=forward) for place in range(count)]

    return make


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rows", [0, 1, 256, 257, 5000])
def test_lanes_that_finish_late_give_the_same_bits(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, count: int, rows: int
) -> None:
    bundle = load_bundle(bundle_path)
    encoded = encode(make_users(rows), bundle.spec)
    wanted = Scorer(bundle, small).score(encoded)
    late = Scorer(bundle, small, lanes=late_lanes([], count)).score(encoded)
    np.testing.assert_array_equal(late, wanted)


def test_one_batch_is_always_under_way_while_the_next_is_filled(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path
) -> None:
    log: list[str] = []
    scorer = Scorer(load_bundle(bundle_path), small, lanes=late_lanes(log, 2))
    del log[:]
    pq.write_table(make_users(4 * 256), tmp_path / "users.parquet")
    scorer.score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet")
    assert log == ["start a", "start b", "finish a", "start a", "finish b", "start b", "finish a", "finish b"]


class Ending(CpuLane):
    """A device whose memory ends at a given forward of more than `held` rows."""

    left = 0
    held = 0

    def __init__(self, forward: Forward, *shape: int) -> None:
        super().__init__(forward, *shape)
        self.rows = shape[-1]

    def start(self) -> None:
        if self.rows > Ending.held:
            Ending.left -= 1
            if Ending.left < 0:
                raise torch.OutOfMemoryError(f"{self.rows} rows")
        super().start()


def ending_lanes(device: str, forward: Forward, *shape: int) -> Sequence[Lane]:
    del device
    return [Ending(forward, *shape)]


def test_memory_that_ends_half_way_scores_the_whole_file_again_at_half_the_shape(
    bundle_path: Path, make_users: MakeUsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "left", 4)
    monkeypatch.setattr(Ending, "held", 512)
    users, bundle = make_users(5000), load_bundle(bundle_path)
    pq.write_table(users, tmp_path / "users.parquet")
    scorer = Scorer(bundle, ScoringSettings(batch_rows=1024, device="cpu"), lanes=ending_lanes)
    assert scorer.batch_rows == 1024
    assert scorer.score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet") == 5000
    wanted = Scorer(bundle, ScoringSettings(batch_rows=512, device="cpu")).score(encode(users, bundle.spec))
    table, footer = pq.read_table(tmp_path / "scores.parquet"), read_footer(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(table.column("score").to_numpy(), wanted)
    assert table.column("user_id").equals(users.column("user_id"))
    assert footer[BATCH_ROWS] == "512"
    assert json.loads(footer[UNKNOWN]) == encode(users, bundle.spec).unknown


def test_memory_that_ends_at_every_shape_is_said(
    bundle_path: Path, make_users: MakeUsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "left", 3)
    monkeypatch.setattr(Ending, "held", 0)
    pq.write_table(make_users(5000), tmp_path / "users.parquet")
    scorer = Scorer(load_bundle(bundle_path), ScoringSettings(batch_rows=512, device="cpu"), lanes=ending_lanes)
    with pytest.raises(ScoringError, match="no memory for 256 rows"):
        scorer.score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_streams_give_what_one_forward_gives(bundle_path: Path, make_users: MakeUsers) -> None:
    bundle = load_bundle(bundle_path, "cuda")
    encoded = encode(make_users(5000), bundle.spec)
    scorer = Scorer(bundle, ScoringSettings(batch_rows=512, device="cuda"))
    on_cpu = Scorer(load_bundle(bundle_path), ScoringSettings(batch_rows=512, device="cpu")).score(encoded)
    np.testing.assert_allclose(scorer.score(encoded), on_cpu, atol=1e-6, rtol=0)
    lanes = make_lanes("cuda", bundle.inference, len(encoded.numeric), len(encoded.categories), 512)
    assert [type(lane) for lane in lanes] == [CudaLane, CudaLane]
