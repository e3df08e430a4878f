"""`profile-assets plan`: a night's machines and cost, beside an always-on service, as tables for people.

The arithmetic is in `capacity`, the rate in `calibration`; here is only reading of what was typed, and printing.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from profile_assets.capacity import (
    AlwaysOn,
    BatchPoint,
    Carried,
    Night,
    NightPlan,
    Service,
    always_on,
    batch_table,
    best_batch,
    carried_at,
    plan_night,
)
from profile_assets.errors import PermanentError
from profile_assets.storage.layout import Layout

# Where no peak is given: each user is asked for once a day, a tenth of them in the busiest hour.
BUSIEST_HOUR = 0.1
BATCH_ROWS = 4096  # of a forward on a processor; each shard's last one is filled up
CHANGED_SHARES = (0.01, 0.05, 0.2, 0.5, 1.0)
_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Users per second of one device, and where that number is from."""

    users_per_s: float
    source: str


def parse_duration(text: str) -> float:
    """Seconds in "2h", "90m", "1h30m" or "45s"; PermanentError on anything else."""
    if _DURATION.fullmatch(text) is None:
        raise PermanentError(f"{text!r} is no duration", remedy="write it as 2h, 90m, 1h30m or 45s")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))


def find_rate(*, given: float | None, layout: Layout | None = None, day: dt.date | None = None) -> Rate:
    """The rate that was given, else that of a scored day, else one measured here and now (some seconds)."""
    if given is not None:
        return Rate(users_per_s=given, source="as given")
    from profile_assets.calibration import CALIBRATION_USERS, measured_rate, published_rate
    from profile_assets.scoring.settings import ScoringSettings

    if layout is not None and day is not None:
        return Rate(users_per_s=published_rate(layout, day), source=f"{layout.name} on {day}")
    rate = measured_rate(ScoringSettings())
    return Rate(users_per_s=rate, source=f"one core, or the GPU, of this machine: {CALIBRATION_USERS:,} users scored")


def report(
    night: Night, rate: Rate, *, service: Service, peak_per_s: float | None = None, console: Console | None = None
) -> None:
    """Print the plan: the night, the service at each batch size, and the two side by side."""
    console = console or Console(highlight=False)
    peak = night.users * BUSIEST_HOUR / 3600 if peak_per_s is None else peak_per_s
    plan, points = plan_night(night), batch_table(service, peak)
    _print_night(console, night, plan, rate)
    console.print(_batches(points, service, peak))
    best = best_batch(points) or max(points, key=lambda point: point.capacity_per_s)
    rival = always_on(night, peak_per_s=peak, replica_per_s=best.capacity_per_s)
    console.print(_comparison(night, plan, rival, best))
    print_carried(console, carried_at(rate.users_per_s, padding=BATCH_ROWS * plan.shards / night.users))
    if peak_per_s is None:
        console.print(
            f"peak: every user once a day, {BUSIEST_HOUR:.0%} of them in the busiest hour; --peak gives another"
        )


def _print_night(console: Console, night: Night, plan: NightPlan, rate: Rate) -> None:
    console.print(f"[bold]{night.users:,} users[/] by a deadline of {_hours(night.deadline_s)}")
    console.print(f"rate: {rate.users_per_s:,.0f} users/s of one device ({rate.source})")
    console.print(
        f"time = users / (rate x devices) = {night.users:,} / ({rate.users_per_s:,.0f} x {plan.devices:,})"
        f" = {_hours(plan.seconds)}"
    )


def print_carried(console: Console, carried: Carried) -> None:
    """When `scoring.mode = "incremental"` pays."""
    table = Table(title='a night with scoring.mode = "incremental", us of a device per user', title_justify="left")
    for name in ("users whose model input changed", "in full", "incremental", "over full"):
        table.add_column(name, justify="right")
    for share in CHANGED_SHARES:
        cost = carried.incremental_us(share)
        table.add_row(f"{share:.0%}", f"{carried.full_us:.2f}", f"{cost:.2f}", f"{cost / carried.full_us:.2f}")
    console.print(table)
    if carried.pays_below is None:
        told = "it never pays: the network costs less than finding out who need not pass through it"
    else:
        told = f"it pays while fewer than {carried.pays_below:.0%} of the users change from day to day"
    console.print(
        f"incremental = rest {carried.rest_us:.2f} + carrying {carried.carrying_us:.2f} + (changed share + padding "
        f"{carried.padding:.1%}) x forward {carried.forward_us:.2f}: {told}"
    )


def _comparison(night: Night, plan: NightPlan, rival: AlwaysOn, best: BatchPoint) -> Table:
    table = Table(title="what it takes, at the same price an hour", title_justify="left")
    for name in ("", "the night's batch", f"always on (batch {best.batch})"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("devices", f"{plan.devices:,}", f"{rival.replicas:,}")
    table.add_row("shards", f"{plan.shards:,} ({night.shards_per_device} a device)", "")
    table.add_row("hours a day", f"{plan.hours:,.3f}", "24")
    table.add_row("cost a day", _money(plan.cost), _money(rival.cost_per_day))
    table.add_row("cost per million users", _money(plan.cost_per_million), _money(rival.cost_per_million))
    if plan.cost:
        table.add_row("relative", "1", f"{rival.cost_per_day / plan.cost:,.1f}")
    return table


def _batches(points: tuple[BatchPoint, ...], service: Service, peak: float) -> Table:
    title = (
        f"a service's batches at {peak:,.0f} requests/s: base {service.base_ms:g} ms, "
        f"{service.per_item_ms:g} ms an item, window {service.window_ms:g} ms"
    )
    table = Table(title=title, title_justify="left")
    for name in ("batch", "service ms", "capacity/s", "utilisation", "queue ms", "p99 ms"):
        table.add_column(name, justify="right")
    for point in points:
        waits = [_ms(point.queue_ms), _ms(point.p99_ms)] if point.is_stable else ["grows", "unstable"]
        numbers = [f"{point.service_ms:.1f}", f"{point.capacity_per_s:,.0f}", f"{point.utilisation:.3f}"]
        table.add_row(str(point.batch), *numbers, *waits)
    return table


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _money(value: float) -> str:
    return f"{value:.2g}" if value < 1 else f"{value:,.2f}"


def _hours(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.2f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.1f} s"


def plan(
    users: int,
    deadline: str,
    price_per_hour: float,
    *,
    rate: float | None,
    day: dt.date | None,
    peak_per_s: float | None,
) -> None:
    """Find the rate, plan the night, print both."""
    layout = None
    if day is not None:
        from profile_assets.profile import open_deployment

        layout = open_deployment().layout
    found = find_rate(given=rate, layout=layout, day=day)
    night = Night(
        users=users,
        deadline_s=parse_duration(deadline),
        users_per_s=found.users_per_s,
        price_per_hour=price_per_hour,
    )
    report(night, found, service=Service(), peak_per_s=peak_per_s)
