"""Rounds alternate, ratios are taken within a round, and what is not installed is named."""

from __future__ import annotations

import pytest

from benchmarks.process import Measured
from benchmarks.rounds import Contestant, play, spread


def measured(seconds: float, cpu_s: float = 1.0) -> Measured:
    return Measured(seconds=seconds, cpu_s=cpu_s, start_s=0.0, start_cpu_s=0.0, peak_mb=0.0, start_mb=0.0, facts={})


def test_every_round_begins_with_another_contestant() -> None:
    order: list[str] = []

    def run(one: Contestant, number: int) -> Measured:
        del number
        order.append(one.name)
        return measured(1.0)

    play([Contestant(name=name, module=name) for name in "abc"], users=1, rounds=2, run=run)
    assert "".join(order) == "abcbca"


def test_a_ratio_compares_within_its_round_and_with_the_fastest() -> None:
    seconds = {
        ("slow", 0): 10.0,
        ("slow", 1): 40.0,
        ("slower", 0): 12.0,
        ("slower", 1): 30.0,
        ("us", 0): 1,
        ("us", 1): 2,
    }
    results = play(
        [Contestant(name=name, module=name) for name in ("slow", "slower", "us")],
        users=1,
        rounds=2,
        run=lambda one, number: measured(seconds[one.name, number]),
    )
    ratio = results.speed("us", over=["slow", "slower"])
    assert (ratio.least, ratio.median, ratio.greatest) == (10.0, 12.5, 15.0)


def test_cpu_time_is_told_per_user_and_as_a_share_of_others() -> None:
    cpu_s = {"split": 1.0, "score": 3.0, "day": 8.0}
    results = play(
        [Contestant(name=name, module=name) for name in cpu_s],
        users=1_000_000,
        rounds=1,
        run=lambda one, _: measured(1.0, cpu_s[one.name]),
    )
    assert results.cpu_us("day").median == 8.0
    assert results.cpu_share("day", of=["split", "score"]).median == 2.0


def test_a_contestant_whose_package_is_absent_is_named_and_not_run() -> None:
    absent = Contestant(name="other", module="none", needs=("no_such_package",))
    results = play([absent], users=1, rounds=1, run=lambda one, _: pytest.fail(f"{one.name} was run"))
    assert results.not_run == {"other": ("no_such_package",)}
    assert not results.runs


def test_a_spread_reads_as_its_median_and_its_ends() -> None:
    assert str(spread([1.0, 20.0, 300.0])) == "20.0 (1.00 to 300)"
