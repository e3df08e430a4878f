"""The planner's closed forms, against numbers worked out by hand and as laws that hold for any input."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.capacity import (
    Night,
    Service,
    always_on,
    at_batch,
    batch_table,
    best_batch,
    carried_at,
    plan_night,
)
from profile_assets.errors import PermanentError

TWO_THOUSAND = 2_000.0

nights = st.builds(
    Night,
    users=st.integers(1, 10**10),
    deadline_s=st.floats(1, 10**6),
    users_per_s=st.floats(1, 10**7),
    price_per_hour=st.floats(0, 1000),
    shards_per_device=st.integers(1, 8),
)
services = st.builds(Service, base_ms=st.floats(0.01, 100), per_item_ms=st.floats(0, 10), window_ms=st.floats(0, 100))
batches = st.integers(1, 4096)


@pytest.mark.parametrize(
    ("batch", "capacity_per_s"),
    [(1, 99), (8, 741), (16, 1_379)],
)
def test_small_batches_do_not_keep_up_with_two_thousand_requests_a_second(batch: int, capacity_per_s: int) -> None:
    point = at_batch(Service(), batch, TWO_THOUSAND)
    assert round(point.capacity_per_s) == capacity_per_s
    assert not point.is_stable
    assert point.queue_ms is None


@pytest.mark.parametrize(
    ("batch", "capacity_per_s", "utilisation", "p99_ms"),
    [(32, 2_424, 0.825, 129.2), (64, 3_902, 0.5125, 52.4)],
)
def test_larger_batches_keep_up_and_the_queue_shortens(
    batch: int, capacity_per_s: int, utilisation: float, p99_ms: float
) -> None:
    point = at_batch(Service(base_ms=5, per_item_ms=0.1, window_ms=5), batch, TWO_THOUSAND)
    assert round(point.capacity_per_s) == capacity_per_s
    assert point.utilisation == pytest.approx(utilisation, abs=5e-4)
    assert point.p99_ms == pytest.approx(p99_ms, abs=0.05)


def test_the_best_batch_has_the_lowest_p99_of_the_stable_ones() -> None:
    points = batch_table(Service(), TWO_THOUSAND, (1, 8, 16, 32, 64))
    best = best_batch(points)
    assert best is not None
    assert best.batch == 64


def test_no_batch_is_best_where_none_keeps_up() -> None:
    assert best_batch(batch_table(Service(), TWO_THOUSAND, (1, 8, 16))) is None


def test_a_night_of_ten_million_users_by_hand() -> None:
    plan = plan_night(Night(users=10_000_000, deadline_s=7_200, users_per_s=500, price_per_hour=3.6))
    assert plan.devices == 3  # 20,000 device seconds in 7,200
    assert plan.shards == 12
    assert plan.hours == pytest.approx(20_000 / 3 / 3600)
    assert plan.cost == pytest.approx(20.0)
    assert plan.cost_per_million == pytest.approx(2.0)


def test_an_always_on_service_is_paid_all_day_for_three_times_its_peak() -> None:
    night = Night(users=10_000_000, deadline_s=7_200, users_per_s=500, price_per_hour=2.0)
    service = always_on(night, peak_per_s=2_000, replica_per_s=3_902)
    assert service.replicas == 2
    assert service.cost_per_day == pytest.approx(96.0)
    assert service.cost_per_million == pytest.approx(9.6)


@given(nights)
def test_the_night_ends_before_its_deadline_and_one_device_fewer_would_not_do(night: Night) -> None:
    plan = plan_night(night)
    assert plan.seconds <= night.deadline_s * (1 + 1e-9)
    if plan.devices > 1:
        assert night.users / (night.users_per_s * (plan.devices - 1)) > night.deadline_s * (1 - 1e-9)


@given(nights)
def test_every_device_gets_the_same_number_of_shards(night: Night) -> None:
    assert plan_night(night).shards == plan_night(night).devices * night.shards_per_device


@given(nights)
def test_the_cost_does_not_depend_on_the_deadline(night: Night) -> None:
    later = dataclasses.replace(night, deadline_s=night.deadline_s * 2)
    assert plan_night(later).cost == pytest.approx(plan_night(night).cost)
    assert plan_night(later).devices <= plan_night(night).devices


@given(services, batches, st.floats(0, 10**6))
def test_a_service_is_stable_exactly_while_its_capacity_exceeds_the_load(
    service: Service, batch: int, offered: float
) -> None:
    point = at_batch(service, batch, offered)
    assert point.is_stable == (point.utilisation < 1)
    if point.p99_ms is not None:
        assert point.p99_ms >= service.window_ms + point.service_ms


@given(services, batches)
def test_a_larger_batch_never_has_less_capacity(service: Service, batch: int) -> None:
    smaller, larger = (at_batch(service, size, 0.0) for size in (batch, batch + 1))
    assert larger.capacity_per_s >= smaller.capacity_per_s * (1 - 1e-12)


@given(services, batches, st.floats(0.0, 0.9), st.floats(0.0, 0.09))
def test_more_load_never_answers_sooner(service: Service, batch: int, share: float, more: float) -> None:
    capacity = at_batch(service, batch, 0.0).capacity_per_s
    calm, busy = (at_batch(service, batch, capacity * load) for load in (share, share + more))
    assert calm.p99_ms is not None
    assert busy.p99_ms is not None
    assert busy.p99_ms >= calm.p99_ms


@given(nights, st.floats(0, 10**5), st.floats(1, 10**5))
def test_the_replicas_hold_three_times_the_peak(night: Night, peak: float, replica: float) -> None:
    service = always_on(night, peak_per_s=peak, replica_per_s=replica)
    assert service.replicas * replica >= 3 * peak * (1 - 1e-9)
    assert service.replicas >= 1


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("field", ["users", "deadline_s", "users_per_s"])
def test_a_number_that_makes_no_plan_is_named(field: str, bad: float) -> None:
    good = {"users": 1, "deadline_s": 1.0, "users_per_s": 1.0, "price_per_hour": 0.0}
    with pytest.raises(PermanentError, match=field):
        Night(**{**good, field: bad})  # type: ignore[arg-type]


def test_a_batch_of_no_requests_is_refused() -> None:
    with pytest.raises(PermanentError, match="batch"):
        at_batch(Service(), 0, 1.0)


def test_an_incremental_night_by_hand() -> None:
    small = carried_at(1_000_000 / 1.6)
    assert small.full_us == pytest.approx(1.6)
    assert small.forward_us == pytest.approx(0.7)
    assert small.incremental_us(0.05) == pytest.approx(0.9 + 0.2 + 0.05 * 0.7)
    assert small.pays_below == pytest.approx(1 - 0.2 / 0.7)
    large = carried_at(1_000_000 / 20.9, padding=0.01)
    assert large.incremental_us(0.05) / large.full_us == pytest.approx((1.1 + 0.06 * 20) / 20.9)


def test_a_network_that_costs_less_than_the_search_is_never_worth_it() -> None:
    assert carried_at(1_000_000).pays_below is None
    assert carried_at(50_000_000).pays_below is None
    assert carried_at(500_000, padding=1.0).pays_below is None


@given(
    rate=st.floats(1_000, 10_000_000),
    share=st.floats(0, 1),
    more=st.floats(0, 1),
    padding=st.floats(0, 0.2),
)
def test_incremental_pays_exactly_below_its_share(rate: float, share: float, more: float, padding: float) -> None:
    costs = carried_at(rate, padding=padding)
    assert costs.incremental_us(max(share, more)) >= costs.incremental_us(min(share, more))
    below = costs.pays_below
    if below is None:
        assert costs.incremental_us(share) >= costs.full_us * (1 - 1e-9)
    elif abs(share - below) > 1e-6:
        assert (costs.incremental_us(share) < costs.full_us) == (share < below)
