"""Contestants as they are run: fresh processes, measured from outside, giving the same scores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.agreement import DisagreementError, check
from benchmarks.process import ContestantError, run
from benchmarks.rounds import Contestant
from benchmarks.runs import resume, scoring

USERS = 3_000


def output(folder: Path, scores: dict[str, float]) -> Path:
    folder.mkdir()
    table = pa.table({"user_id": list(scores), "score": pa.array(scores.values(), pa.float32())})
    pq.write_table(table, folder / "part.parquet")
    return folder


def test_scores_in_another_order_and_within_the_tolerance_agree(tmp_path: Path) -> None:
    one = output(tmp_path / "one", {"a": 0.1, "b": 0.2})
    other = output(tmp_path / "other", {"b": 0.2 + 5e-7, "a": 0.1})
    assert 0 < check({"one": one, "other": other})["other"] < 1e-6


@pytest.mark.parametrize(
    "scores", [{"a": 0.1, "b": 0.20001}, {"a": 0.1}, {"a": 0.1, "c": 0.2}, {"a": 0.1, "b": float("nan")}]
)
def test_another_score_or_another_user_is_a_disagreement(tmp_path: Path, scores: dict[str, float]) -> None:
    one, other = output(tmp_path / "one", {"a": 0.1, "b": 0.2}), output(tmp_path / "other", scores)
    with pytest.raises(DisagreementError, match="other"):
        check({"one": one, "other": other})


def test_a_contestant_that_breaks_says_how(tmp_path: Path) -> None:
    job = {"files": [], "bundle": "nowhere", "out": str(tmp_path), "options": {}}
    with pytest.raises(ContestantError, match="nowhere"):
        run("benchmarks.ours", job, scratch=tmp_path / "jobs")


def test_a_small_round_ends_in_agreement(tmp_path: Path) -> None:
    usual = Contestant(name="usual", module="benchmarks.peers.pandas_loop", options={"batch_rows": 512})
    ours = Contestant(name="ours", module="benchmarks.ours", options={"processes": 2})
    results, apart = scoring(tmp_path, users=USERS, rounds=1, shards=2, who=[usual, ours])
    assert list(apart) == ["ours"]
    assert all(runs[0].start_cpu_s > 0 and runs[0].seconds > 0 for runs in results.runs.values())


def test_a_killed_day_scores_its_last_shard_only(tmp_path: Path) -> None:
    assert resume(tmp_path, users=USERS, shards=3) == {"shards": 3, "scored": 1, "kept": 2}
