"""A place in one of the instance's pools, waited for inside a step, where a cancel or Ctrl-C is heard at once.

Declared on the asset (`pool=`), the place is waited for by Dagster between two steps, where it holds interrupts back
until the next step begins: a cancelled run waits on until its turn comes, and keeps a processor busy all the while.
Limits, and who holds and who waits, are Dagster's, so that the UI shows them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg

# What Dagster's executors claim with, at the intervals and with the priorities of theirs; it has no public name.
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

GPU_POOL = "gpu"
"""The pool of steps that may take a GPU. Its limit is the instance's."""

POLL_S = 0.5


def gpu_pool(device: str) -> str | None:
    """The pool of a step that scores on such a device, as the profile names it; None where it takes no GPU."""
    return None if device == "cpu" else GPU_POOL


@contextmanager
def place_in(pool: str | None, context: dg.AssetExecutionContext, *, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold a place in the pool, if one is named; `on_wait` is told once that there is none free yet."""
    if pool is None or context.instance.is_ephemeral:
        yield
        return
    with InstanceConcurrencyContext(context.instance, context.run) as claims:
        step = context.get_step_execution_context().step.key
        if not claims.claim(pool, step):
            on_wait(f"waiting for a place in the pool {pool}; the UI shows who holds it")
            while not claims.claim(pool, step):
                time.sleep(POLL_S)
        try:
            yield
        finally:
            claims.free_step(step)
