"""A place in a pool is held by one step at a time; whoever waits for it hears a cancel at once."""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import contextlib
import os
import signal
from collections.abc import Iterator

import dagster as dg
import pytest

from profile_assets.orchestration.places import gpu_pool, place_in

POOL = "gpu"


@pytest.fixture
def instance(tmp_path) -> Iterator[dg.DagsterInstance]:
    pools = {"concurrency": {"pools": {"granularity": "op", "default_limit": 1}}}
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=pools) as made:
        yield made


def run(instance: dg.DagsterInstance, on_wait=pytest.fail, pool=POOL, body=lambda: None) -> dg.ExecuteInProcessResult:
    @dg.asset
    def step(context: dg.AssetExecutionContext) -> None:
        with place_in(pool, context, on_wait=on_wait):
            body()

    job = dg.Definitions([step], jobs=[dg.define_asset_job("job")]).resolve_job_def("job")
    return job.execute_in_process(instance=instance, raise_on_error=False)


def holders(instance: dg.DagsterInstance) -> list[str]:
    """The steps that hold a place or wait for one; the storage lists the first under both."""
    found = instance.event_log_storage.get_concurrency_info(POOL)
    return sorted({one.step_key for one in [*found.claimed_slots, *found.pending_steps]})


def test_a_place_is_held_while_the_step_works_and_free_afterwards_whatever_becomes_of_it(instance):
    seen = []

    def work() -> None:
        seen.append(holders(instance))
        raise ValueError

    assert run(instance, body=lambda: seen.append(holders(instance))).success
    assert not run(instance, body=work).success
    assert seen == [["step"], ["step"]]
    assert holders(instance) == []


def test_nobody_waits_where_no_pool_is_named(instance):
    assert run(instance, pool=None, body=lambda: holders(instance)).success
    assert instance.event_log_storage.get_pool_limits() == []


@contextlib.contextmanager
def taken(instance: dg.DagsterInstance) -> Iterator[None]:
    instance.event_log_storage.set_concurrency_slots(POOL, 1)
    assert instance.event_log_storage.claim_concurrency_slot(POOL, "another run", "another step").is_claimed
    yield
    instance.event_log_storage.free_concurrency_slots_for_run("another run")


def test_an_interrupt_is_heard_while_the_place_is_another_steps(instance):
    """As Ctrl-C and a cancel come: a signal to the process, once it waits."""
    waits = []

    def interrupt(told: str) -> None:
        waits.append(told)
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # it must be heard in the wait itself, not in this function

    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        with taken(instance):
            result = run(instance, on_wait=interrupt)
            assert holders(instance) == ["another step"]
    finally:
        signal.signal(signal.SIGALRM, before)
    (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failure.error.cls_name == "DagsterExecutionInterruptedError"
    assert waits == ["waiting for a place in the pool gpu; the UI shows who holds it"]


def test_a_step_that_waits_goes_on_once_the_place_is_free(instance):
    before = signal.signal(
        signal.SIGALRM, lambda *_: instance.event_log_storage.free_concurrency_slots_for_run("another run")
    )
    seen = []
    try:
        with taken(instance):
            result = run(
                instance,
                on_wait=lambda _: signal.setitimer(signal.ITIMER_REAL, 0.2),
                body=lambda: seen.append(holders(instance)),
            )
    finally:
        signal.signal(signal.SIGALRM, before)
    assert result.success
    assert seen == [["step"]]


@pytest.mark.parametrize(("device", "pool"), [("auto", "gpu"), ("cuda", "gpu"), ("cpu", None)])
def test_scoring_waits_for_a_gpu_unless_it_takes_none(device, pool):
    assert gpu_pool(device) == pool
