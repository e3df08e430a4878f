"""A run in this process ends when Dagster says that it is over: cancelled in the UI, or ended by the run monitor.

Runs that the daemon launched are told by their launcher. Nobody tells one that was started from the command line: it
would work on, and be called a success at last, so it looks for itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

POLL_S = 2.0
_OVER = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)


@contextmanager
def ends_with_its_run(instance: dg.DagsterInstance, run_id: str, *, poll_s: float = POLL_S) -> Iterator[None]:
    """Interrupt the main thread, as Ctrl-C does, once the run is over while the body still works on it."""
    if instance.is_ephemeral or threading.current_thread() is not threading.main_thread():
        yield
        return
    done, main = threading.Event(), threading.get_ident()

    def watch() -> None:
        while not done.wait(poll_s):
            run = instance.get_run_by_id(run_id)
            if run is not None and run.status in _OVER:
                if not done.is_set():
                    # A real signal: it also ends a sleep, which `_thread.interrupt_main` would leave to its end.
                    signal.pthread_kill(main, signal.SIGINT)
                return

    watcher = threading.Thread(target=watch, name=f"watch-{run_id[:8]}", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
