"""A function run in a process of its own, which is gone when the answer is there, or the time is up.

The answer travels as JSON. Whatever the function does to its process, raises, hangs or dies, comes to the caller as one
error; processes that it started itself end with it. It ends with its parent, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from profile_assets.errors import ProfileAssetsError, ScoringError
from profile_assets.storage.spawning import main_unseen

_NICENESS = 10
T = TypeVar("T")


def run_apart(work: Callable[[T], dict[str, Any]], argument: T, *, limit_s: float, what: str) -> dict[str, Any]:
    """What `work`, a function of a module, gives for the argument. ScoringError where it gives nothing within the
    limit, naming `what`; an error of ours that it raises is raised as ScoringError with its words.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_life, args=(theirs, work, argument), daemon=True)
    with main_unseen():
        process.start()
    theirs.close()  # so that its death reads as the end of the pipe
    timer = threading.Timer(limit_s, _end, (process,))
    timer.start()
    try:
        answer = _received(ours)
    finally:
        is_over = not timer.is_alive()
        timer.cancel()
        timer.join()
        _end(process)
        process.join()
        ours.close()
    if answer is None:
        raise _nothing_came(process, what, limit_s if is_over else None)
    if "error" in answer:
        raise ScoringError(f"{what}: {answer['error']}", remedy=answer["remedy"])
    return dict(answer["result"])


def _received(connection: Connection) -> dict[str, Any] | None:
    """The answer; None where the process ended without one, or with something else."""
    try:
        answer = json.loads(connection.recv_bytes())
    except (EOFError, OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) and ("result" in answer or "error" in answer) else None


def _nothing_came(process: BaseProcess, what: str, limit_s: float | None) -> ScoringError:
    if limit_s is not None:
        return ScoringError(
            f"{what} was not done after {limit_s:g} s, and its process was ended",
            remedy="raise shadow.limit_minutes, score a smaller share, or look at what the bundle waits for",
        )
    return ScoringError(
        f"the process of {what} ended without an answer (exit status {process.exitcode})",
        remedy="see this run's error output for what ended it; what is published is as it was",
    )


def _end(process: BaseProcess) -> None:
    """Kill the process and whatever it started."""
    if process.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _life(connection: Connection, work: Callable[[T], dict[str, Any]], argument: T) -> None:
    """Errors that are meant go to the parent; any other ends the process, with its traceback in the log."""
    os.setsid()  # a group of its own, to be ended as one
    os.nice(_NICENESS)  # what is published comes first
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer: dict[str, Any] = {"result": work(argument)}
    except ProfileAssetsError as error:
        answer = {"error": error.what, "remedy": error.remedy}
    connection.send_bytes(json.dumps(answer, allow_nan=False).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)
