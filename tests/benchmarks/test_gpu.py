"""The share of time in which a device was busy, where its streams overlap."""

from __future__ import annotations

import pytest

from benchmarks.gpu import covered


@pytest.mark.parametrize(
    ("spans", "time"),
    [
        ([], 0.0),
        ([(0.0, 1.0), (2.0, 3.0)], 2.0),
        ([(0.0, 2.0), (1.0, 3.0)], 3.0),
        ([(0.0, 5.0), (1.0, 2.0), (4.0, 6.0)], 6.0),
        ([(2.0, 3.0), (0.0, 1.0)], 2.0),
    ],
)
def test_time_that_two_streams_share_counts_once(spans: list[tuple[float, float]], time: float) -> None:
    assert covered(spans) == pytest.approx(time)
