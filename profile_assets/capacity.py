"""How many machines a night needs and what it costs; how large a service's batches should be. Closed forms, no I/O.

    time = users / (rate x devices)         devices = the fewest that end before the deadline
    service(batch)  = base + per_item x batch
    capacity(batch) = batch / (window + service)
    utilisation u   = offered / capacity    stable while u < 1
    queue           = u / (1 - u) x service
    p99             ~ window + service + 3 x queue
    incremental     = rest + carrying + changed share x forward, against rest + forward for a day in full

A device is what one scoring process has to itself: one core, or one GPU. Money is in whatever unit the price has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profile_assets.errors import PermanentError

BATCHES = (1, 8, 16, 32, 64, 128)
HEADROOM = 3.0  # an always-on service is bought for three times its peak
REST_US = 0.9  # of a core for a user: read, encode, write and read again, whatever the network
CARRYING_US = 0.2  # digest the model's input, read the earlier day's, find the user there
_MILLION = 1_000_000
_MS = 1000.0


@dataclass(frozen=True, kw_only=True)
class Night:
    """What is to be done: every user once, before the deadline, at `users_per_s` on each device.

    `shards_per_device`: with 3 to 5, a slow device is relieved by the others, and a lost one costs a small share of
    the night; a whole number of them per device leaves no device idle in the last round.
    """

    users: int
    deadline_s: float
    users_per_s: float
    price_per_hour: float
    shards_per_device: int = 4

    def __post_init__(self) -> None:
        _require_positive(
            users=self.users,
            deadline_s=self.deadline_s,
            users_per_s=self.users_per_s,
            shards_per_device=self.shards_per_device,
        )
        _require_not_negative(price_per_hour=self.price_per_hour)


@dataclass(frozen=True, kw_only=True)
class NightPlan:
    """How the night is done. `cost` is for the seconds used, as where machines are paid by the second."""

    devices: int
    shards: int
    seconds: float
    cost: float
    cost_per_million: float

    @property
    def hours(self) -> float:
        return self.seconds / 3600


def plan_night(night: Night) -> NightPlan:
    """The fewest devices that end before the deadline, four shards each (or as the night says)."""
    device_seconds = night.users / night.users_per_s
    devices = max(1, math.ceil(device_seconds / night.deadline_s))
    cost = device_seconds / 3600 * night.price_per_hour
    return NightPlan(
        devices=devices,
        shards=devices * night.shards_per_device,
        seconds=device_seconds / devices,
        cost=cost,
        cost_per_million=cost / night.users * _MILLION,
    )


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a user costs, in microseconds of a device, where scores of users whose model input stands still are carried.

    `forward_us` is the network's part. `padding` is the share of rows, over all users, that the last forward of each
    shard is filled up with at most.
    """

    forward_us: float
    rest_us: float = REST_US
    carrying_us: float = CARRYING_US
    padding: float = 0.0

    @property
    def full_us(self) -> float:
        return self.rest_us + self.forward_us

    def incremental_us(self, changed: float) -> float:
        """Per user, of whom a share of `changed` passes through the network."""
        return self.rest_us + self.carrying_us + min(1.0, changed + self.padding) * self.forward_us

    @property
    def pays_below(self) -> float | None:
        """The share of changed users below which carrying pays; None where it never does."""
        if self.carrying_us >= self.forward_us:
            return None
        share = 1 - self.carrying_us / self.forward_us - self.padding
        return share if share > 0 else None


def carried_at(users_per_s: float, *, padding: float = 0.0) -> Carried:
    """For a device that scores so many users a second in full: what is not the rest is the network's."""
    _require_positive(users_per_s=users_per_s)
    _require_not_negative(padding=padding)
    whole_us = _MILLION / users_per_s
    rest_us = min(REST_US, whole_us)
    return Carried(forward_us=whole_us - rest_us, rest_us=rest_us, padding=padding)


@dataclass(frozen=True, kw_only=True)
class Service:
    """One replica that gathers requests for `window_ms` and answers a batch in `base_ms + per_item_ms x batch`."""

    base_ms: float = 5.0
    per_item_ms: float = 0.1
    window_ms: float = 5.0

    def __post_init__(self) -> None:
        _require_positive(base_ms=self.base_ms)
        _require_not_negative(per_item_ms=self.per_item_ms, window_ms=self.window_ms)


@dataclass(frozen=True, kw_only=True)
class BatchPoint:
    """A service at one batch size under a load. `queue_ms` and `p99_ms` are None where the queue grows without end."""

    batch: int
    service_ms: float
    capacity_per_s: float
    utilisation: float
    queue_ms: float | None
    p99_ms: float | None

    @property
    def is_stable(self) -> bool:
        return self.p99_ms is not None


def at_batch(service: Service, batch: int, offered_per_s: float) -> BatchPoint:
    """The service with batches of `batch`, offered that many requests a second."""
    _require_positive(batch=batch)
    _require_not_negative(offered_per_s=offered_per_s)
    service_ms = service.base_ms + service.per_item_ms * batch
    capacity_per_s = batch / (service.window_ms + service_ms) * _MS
    utilisation = offered_per_s / capacity_per_s
    queue_ms = utilisation / (1 - utilisation) * service_ms if utilisation < 1 else None
    return BatchPoint(
        batch=batch,
        service_ms=service_ms,
        capacity_per_s=capacity_per_s,
        utilisation=utilisation,
        queue_ms=queue_ms,
        p99_ms=None if queue_ms is None else service.window_ms + service_ms + 3 * queue_ms,
    )


def batch_table(service: Service, offered_per_s: float, batches: Sequence[int] = BATCHES) -> tuple[BatchPoint, ...]:
    """The service at each batch size, under the same load."""
    return tuple(at_batch(service, batch, offered_per_s) for batch in batches)


def best_batch(points: Iterable[BatchPoint]) -> BatchPoint | None:
    """The point with the lowest p99; None where none is stable: then more replicas are needed."""
    stable = [(point.p99_ms, point) for point in points if point.p99_ms is not None]
    return min(stable, key=lambda pair: pair[0])[1] if stable else None


@dataclass(frozen=True, kw_only=True)
class AlwaysOn:
    """Replicas that are paid day and night. `cost_per_million` spreads a day's cost over the same users."""

    replicas: int
    cost_per_day: float
    cost_per_million: float


def always_on(night: Night, *, peak_per_s: float, replica_per_s: float, headroom: float = HEADROOM) -> AlwaysOn:
    """The service that would answer instead of the night, sized for `headroom` times the peak.

    `replica_per_s` is the capacity of one replica (`BatchPoint.capacity_per_s`), at the same price as a device.
    """
    _require_positive(replica_per_s=replica_per_s, headroom=headroom)
    _require_not_negative(peak_per_s=peak_per_s)
    replicas = max(1, math.ceil(headroom * peak_per_s / replica_per_s))
    cost_per_day = replicas * 24 * night.price_per_hour
    return AlwaysOn(
        replicas=replicas, cost_per_day=cost_per_day, cost_per_million=cost_per_day / night.users * _MILLION
    )


def _require_positive(**numbers: float) -> None:
    _require({name: number for name, number in numbers.items() if not (0 < number < math.inf)}, "above zero")


def _require_not_negative(**numbers: float) -> None:
    _require({name: number for name, number in numbers.items() if not (0 <= number < math.inf)}, "zero or more")


def _require(wrong: dict[str, float], wanted: str) -> None:
    if wrong:
        said = ", ".join(f"{name} = {number}" for name, number in wrong.items())
        raise PermanentError(f"no plan can be made with {said}", remedy=f"give a number {wanted}")
