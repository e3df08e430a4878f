"""One scoring process, from both ends: its handle in the parent, and its life.

It loads a model once, scores what comes through its pipe, and ends with its parent, however that ends. It holds no
lock. Whatever kills it reads as the end of its pipe.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import TypeAlias

from profile_assets.errors import ProfileAssetsError
from profile_assets.scoring.shard import ShardResult, ShardTask, score_shard
from profile_assets.storage.spawning import main_unseen

Answer: TypeAlias = ShardResult | ProfileAssetsError


class Worker:
    """A process that scores; `gpu` is the one that it sees, None where it needs none."""

    def __init__(self, gpu: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, gpu), daemon=True)
        with main_unseen():
            self.process.start()
        theirs.close()  # so that its death reads as the end of the pipe

    def give(self, task: ShardTask) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it died, which is what it will answer
            self.connection.send(task)

    def answer(self) -> Answer | None:
        """What became of the task in hand; None where the process died over it."""
        try:
            answer: Answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return None
        return answer

    def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection, gpu: int | None) -> None:
    """The life of the process: score what comes, answer, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        _see_only(gpu)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            connection.send(_answer(connection.recv()))


def _answer(task: ShardTask) -> Answer:
    """Errors that are meant go to the parent; any other ends the process, with its traceback in the log."""
    try:
        return score_shard(task)
    except ProfileAssetsError as error:
        return error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _see_only(gpu: int) -> None:
    """Leave this process one GPU. Each thread would have to choose its own otherwise; torch looks on first use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu) if visible is None else visible.split(",")[gpu]
