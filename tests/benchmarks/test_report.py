"""The page of results: goals judged from what was saved, and nothing claimed that was not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import contestants as who
from benchmarks.goals import IN_FULL, INCREMENTAL, of_growth, of_incremental, of_resume, of_scoring
from benchmarks.process import Measured
from benchmarks.report import write
from benchmarks.rounds import Results

MACHINE = {"cores": 2, "processor": "p", "python": "3.11", "packages": {"torch": "2.13.0", "ray": None}}


def results(**seconds: float) -> Results:
    names = {"usual": who.PANDAS, "ours": who.OURS, "forward": who.FORWARD, "pinned": who.OURS_ONE_CORE}
    runs = {names[key]: [_run(value)] for key, value in seconds.items()}
    return Results(users=1_000, runs={**runs, who.SPLIT: [_run(1.0)]}, not_run={})


def _run(seconds: float) -> Measured:
    return Measured(
        seconds=seconds, cpu_s=seconds, start_s=1.0, start_cpu_s=1.0, peak_mb=300.0, start_mb=200.0, facts={}
    )


def grown(users: int, peak_mb: float, day: float) -> dict[str, Any]:
    part = {"peak_mb": 500.0, "over_start_mb": peak_mb}
    return {
        "users": users,
        "scoring": {"cpu_us": 1.0, **part},
        "split": {"cpu_us": 2.0, **part},
        "day": {"cpu_us": day, **part},
    }


def test_goals_are_met_or_short_by_the_median() -> None:
    verdicts = [goal.verdict for goal in of_scoring(results(usual=50, ours=2, forward=1.5, pinned=4))]
    assert verdicts == ["met", "met", "short", "not measured", "not measured", "met"]


def test_the_day_and_the_memory_are_judged_at_the_largest_size() -> None:
    memory, day = of_growth([grown(10_000, 900, 90.0), grown(125_000, 300, 30.0), grown(1_000_000, 420, 5.0)])
    assert (memory.measured, memory.verdict) == ("120 MB", "short")
    assert (day.measured, day.verdict) == ("1.67", "met")


def test_a_resume_that_scores_more_than_one_shard_falls_short() -> None:
    assert of_resume({"shards": 16, "scored": 2, "kept": 14})[0].verdict == "short"


def test_the_gates_and_the_lookups_have_their_tables_where_they_were_measured(tmp_path: Path) -> None:
    gates = {"machine": MACHINE, "judging the shards": 0.125, "scoring": 1.0, "all": 0.25}
    store = {"load_s": [2.0], "load_cpu_s": [1.0], "compare_s": [], "size_bytes": [40_000]}
    stores = {"SQLite": {**store, "one_us": [10.0, 10.0], "many_us": [200.0]}}
    (tmp_path / "gates.json").write_text(json.dumps(gates), encoding="utf-8")
    (tmp_path / "online.json").write_text(json.dumps({"machine": MACHINE, "users": 1000, "stores": stores}))
    write(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| judging the shards | 0.125 |\n| all gates | 0.250 |\n| scoring | 1.000 |" in page
    assert "in CPU time: 0.25 (goal: 0.5 or less)" in page
    assert "| SQLite | 0 | 1000.00 | - | 40 | 10 / 10 | 200 / 200 |" in page


def incremental(full: float, carried: float, *, users: int, forwards: int) -> dict[str, Any]:
    runs = {IN_FULL: [_run(full)], INCREMENTAL: [_run(carried)]}
    told = {"shards": 2, "batch_rows": 100, "forwards": forwards, "changed": 0.05, "forward_us": 0.7}
    return {**Results(users=users, runs=runs, not_run={}).to_json(), **told}


def test_an_incremental_day_is_judged_by_its_forwards_and_its_cost_with_each_network(tmp_path: Path) -> None:
    found = {
        "networks": [incremental(2.0, 1.3, users=10_000, forwards=6), incremental(20.0, 4.0, users=10_000, forwards=6)]
    }
    goals = of_incremental(found)
    assert [goal.verdict for goal in goals] == ["met", "met", "short"]
    assert goals[0].measured == "6.0%"
    (tmp_path / "incremental.json").write_text(json.dumps({"machine": MACHINE, **found}), encoding="utf-8")
    write(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| 0.70 | 10,000 | 5.0% | 200 (200 to 200) | 130 (130 to 130) | 0.65 (0.65 to 0.65) | 6.0% |" in page


def test_a_page_of_nothing_claims_nothing(tmp_path: Path) -> None:
    write(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert " met " not in page
    assert "no CUDA device was at hand" in page


@pytest.mark.parametrize("apart", [{}, {who.OURS: 2e-7}])
def test_saved_results_come_back_as_they_were(tmp_path: Path, apart: dict[str, float]) -> None:
    whole = results(usual=50, ours=2, forward=1.5, pinned=4)
    parts = {name: [_run(1.0)] for name in who.LIMITS.values()}
    whole = Results(users=whole.users, runs={**parts, **whole.runs}, not_run={"Spark": ("pyspark",)})
    assert Results.from_json(json.loads(json.dumps(whole.to_json()))).speed(who.OURS, over=[who.PANDAS]).median == 25
    saved = {"machine": MACHINE, **whole.to_json(), "apart": apart}
    (tmp_path / "scoring.json").write_text(json.dumps(saved), encoding="utf-8")
    write(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| ours, one process | 25.0 (25.0 to 25.0) |" in page
    assert "for want of the package: Spark" in page
