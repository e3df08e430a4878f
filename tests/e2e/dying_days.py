"""A process that runs days which die.

Each line on stdin is a list of requests in JSON, which run side by side: `root`, `day`, `through` ("rooms": the
functions that the assets call, in their order; or "dagster": the day's job), `workers`, and when to die: `step`, the
number or the name of a write, fsync, rename, removal or end of a stage; or `after_s`, wherever the day is by then; or
neither. With `remote`, the truth lies there on S3 and `root` is the working copy; `environment` is added to that of the
process. `largest_file` bounds the bytes of a file, `user` is the user to run as. A forked child runs each day; answered
are its exit status, the steps that it came to, the error that stopped it, and how many processes outlived it.

Everything slow is imported once, before the first fork; nothing is run in the parent, so that it has no threads that a
child could miss. The parent adopts what its children leave behind.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import datetime as dt
import fcntl
import gc
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

warnings.simplefilter("ignore")

import boto3  # noqa: E402, F401
import dagster as dg  # noqa: E402
import great_expectations  # noqa: E402, F401
import pandas  # noqa: E402, F401
import torch  # noqa: E402

from profile_assets.errors import ProfileAssetsError  # noqa: E402
from profile_assets.feature_store import version_file  # noqa: E402
from profile_assets.feature_store.publish import publish  # noqa: E402
from profile_assets.models.bundle_files import read_bins  # noqa: E402
from profile_assets.models.registry import stable_bundle  # noqa: E402
from profile_assets.orchestration.build import build_definitions  # noqa: E402
from profile_assets.orchestration.launch import Session  # noqa: E402
from profile_assets.profile import Deployment, load_deployment  # noqa: E402
from profile_assets.quality import gates  # noqa: E402
from profile_assets.quality.measures import Meter  # noqa: E402
from profile_assets.scoring.day import score_day  # noqa: E402
from profile_assets.scoring.engines.worker import Worker  # noqa: E402
from profile_assets.shards.split import split  # noqa: E402
from profile_assets.storage.atomic import locked  # noqa: E402
from profile_assets.storage.layout import EXPORT, RAW_USERS, STAGES, USER_SCORES, USER_SHARDS  # noqa: E402
from profile_assets.storage.objects import Objects  # noqa: E402
from profile_assets.storage.parquet import ParquetSink  # noqa: E402
from profile_assets.storage.stages import Staged, commit  # noqa: E402
from profile_assets.storage.verdicts import StageVerdict, record  # noqa: E402
from profile_assets.users.land import commit_landing, land  # noqa: E402

Call: TypeAlias = Callable[..., Any]
UNIQUE = re.compile(r"\.\d+-[0-9a-f]{12}")
FILES = Path("/proc/self/fd")
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER


class Steps:
    """Counts what the child does to the disk below `root`, tells each step before it is taken, and dies at one."""

    def __init__(self, root: str, told: int, die_at: int | str | None) -> None:
        self.root, self.told, self.die_at = root, told, die_at
        self.count, self.stage = 0, RAW_USERS
        self.tell, self.turn, self.is_dying = os.write, threading.Lock(), False

    def step(self, what: str, on_death: Callable[[], object] = lambda: None) -> None:
        if self.is_dying:
            return
        with self.turn:
            self.count += 1
            is_last = self.die_at in (self.count, what)
            self.tell(self.told, f"{self.stage}\t{what}\n".encode())
        if is_last:
            self.is_dying = True
            on_death()
            os.kill(os.getpid(), signal.SIGKILL)

    def locked(self, name: str) -> None:
        """A day's lock is taken: by the first of a stage it is known where the day is."""
        for stage in STAGES:
            if f"_locks/{'publish' if stage == EXPORT else stage}-" in name and not self.is_reading(stage):
                self.stage = stage

    def is_reading(self, stage: str) -> bool:
        """Whether this lock is that of a stage that is read, not of the one that is written."""
        return STAGES.index(stage) < STAGES.index(self.stage)

    def name(self, path: Any, folder: int | None = None) -> str | None:
        """The path below the root, the same in each run; None for one elsewhere."""
        if isinstance(path, int):
            path = FILES / str(path)
            path = path.readlink()
        elif folder is not None:
            path = (FILES / str(folder)).readlink() / path
        path = os.path.abspath(os.fspath(path))  # noqa: PTH100  Path is what is being watched
        return UNIQUE.sub("", path[len(self.root) + 1 :]) if path.startswith(self.root + "/") else None


def watch(steps: Steps) -> None:
    """Put the steps into everything that changes a disk from here on."""
    for name in ("fsync", "unlink", "rmdir"):
        setattr(os, name, told(steps, name, getattr(os, name)))
    shutil.rmtree = told(steps, "rmtree", shutil.rmtree)  # type: ignore[assignment]
    os.replace = moves(steps, os.replace)  # type: ignore[assignment]
    builtins.open = io.open = opens(steps, io.open)  # type: ignore[assignment]
    fcntl.flock = locks(steps, fcntl.flock)
    Path.write_text = writes_text(steps, Path.write_text)  # type: ignore[method-assign]
    ParquetSink.write = writes_rows(steps, ParquetSink.write)  # type: ignore[method-assign]
    ParquetSink.__exit__ = closes(steps, ParquetSink.__exit__)  # type: ignore[method-assign]
    version_file._insert = inserts(steps, version_file._insert)
    Objects.put = goes_up(steps, Objects.put)  # type: ignore[method-assign]
    Objects.remove = told_only(steps, "remove from S3", Objects.remove)  # type: ignore[method-assign]
    Worker.__init__ = starts(steps, Worker.__init__)  # type: ignore[method-assign,misc]


def told(steps: Steps, name: str, call: Call) -> Call:
    def wrapped(path: Any, *args: Any, **kwargs: Any) -> Any:
        if (at := steps.name(path, kwargs.get("dir_fd"))) is not None:
            steps.step(f"{name} {at}")
        return call(path, *args, **kwargs)

    return wrapped


def moves(steps: Steps, call: Call) -> Call:
    def wrapped(path: Any, to: Any, **kwargs: Any) -> None:
        at = steps.name(to)
        if at is not None:
            steps.step(f"replace {at}")
        call(path, to, **kwargs)
        if at is not None:
            steps.step(f"replaced {at}")

    return wrapped


def opens(steps: Steps, call: Call) -> Call:
    def wrapped(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode) & set("wxa+") and not isinstance(path, int) and (at := steps.name(path)) is not None:
            steps.step(f"open {at}")
        return call(path, mode, *args, **kwargs)

    return wrapped


def locks(steps: Steps, call: Call) -> Call:
    def wrapped(handle: int, mode: int) -> None:
        steps.locked(steps.name(handle) or "")
        call(handle, mode)

    return wrapped


def writes_text(steps: Steps, call: Call) -> Call:
    def wrapped(path: Path, text: str, **kwargs: Any) -> int:
        if (at := steps.name(path)) is not None:
            steps.step(f"write {at}", lambda: call(path, text[: len(text) // 2], **kwargs))
        return int(call(path, text, **kwargs))

    return wrapped


def writes_rows(steps: Steps, call: Call) -> Call:
    def wrapped(sink: ParquetSink, rows: Any) -> None:
        half = rows.slice(0, rows.num_rows // 2)
        steps.step(f"write {steps.name(sink.path)}", lambda: call(sink, half))
        call(sink, rows)

    return wrapped


def closes(steps: Steps, call: Call) -> Call:
    def wrapped(sink: ParquetSink, *error: Any) -> None:
        steps.step(f"close {steps.name(sink.path)}")
        call(sink, *error)

    return wrapped


def inserts(steps: Steps, call: Call) -> Call:
    def wrapped(connection: Any, buckets: Any) -> None:
        steps.step("write buckets")
        call(connection, buckets)
        steps.step("wrote buckets")

    return wrapped


def starts(steps: Steps, call: Call) -> Call:
    def wrapped(worker: Worker, gpu: int | None) -> None:
        call(worker, gpu)
        steps.step("start a worker")

    return wrapped


def goes_up(steps: Steps, call: Call) -> Call:
    def wrapped(objects: Objects, key: str, *args: Any, **kwargs: Any) -> str:
        steps.step(f"put {key}")
        etag = str(call(objects, key, *args, **kwargs))
        steps.step(f"was put {key}")
        return etag

    return wrapped


def told_only(steps: Steps, name: str, call: Call) -> Call:
    def wrapped(*args: Any) -> Any:
        steps.step(name)
        return call(*args)

    return wrapped


class Rooms:
    """A day through the functions that the assets call."""

    def __init__(self, deployment: Deployment, day: dt.date, steps: Steps) -> None:
        self.deployment, self.layout, self.day, self.steps = deployment, deployment.layout, day, steps

    def run(self) -> None:
        for stage in (self.raw_users, self.user_shards, self.user_scores, self.export):
            stage()
            self.steps.step("the end of the stage")

    def raw_users(self) -> None:
        with self.writing(RAW_USERS):
            staged = land(self.deployment.source, self.deployment.contract, self.day, self.layout)
            self.judge(staged, gates.judge_raw)
            commit_landing(self.layout, self.day, staged)

    def user_shards(self) -> None:
        with self.writing(USER_SHARDS, RAW_USERS):
            meter = Meter(contract=self.deployment.contract)
            staged = split(self.layout, self.day, self.deployment.profile.shards.count, watch=meter)
            self.judge(staged, gates.judge_shards, meter)
            commit(self.layout, self.day, staged)

    def user_scores(self) -> None:
        with self.writing(USER_SCORES, USER_SHARDS):
            bundle = stable_bundle(self.layout)
            staged = score_day(
                self.layout, self.day, bundle, self.deployment.scoring, progress=lambda _: self.steps.step("a shard")
            )
            self.judge(staged, gates.judge_scores, read_bins(bundle))
            commit(self.layout, self.day, staged)

    def export(self) -> None:
        self.deployment.pull(self.day)
        export, zone = self.deployment.export, self.deployment.profile.time_zone
        publish(self.layout, self.day, time_zone=zone, clock=lambda: dt.datetime.now(dt.UTC), export=export)
        (outcome,) = gates.judge_export(self.layout, self.day)
        assert outcome.lets_through, outcome

    @contextlib.contextmanager
    def writing(self, stage: str, *reading: str) -> Iterator[None]:
        self.deployment.pull(self.day)
        with contextlib.ExitStack() as held:
            for name in (stage, *reading):
                held.enter_context(
                    locked(self.layout.day_lock(name, self.day), what=name, is_shared=name != stage, on_wait=self.waits)
                )
            yield

    def waits(self, message: str) -> None:
        self.steps.step(f"waits: {message}")

    def judge(self, staged: Staged, judge: Callable[..., Any], *further: Any) -> None:
        baselines = gates.find_baselines(self.layout, self.day)
        outcomes = judge(self.layout, self.day, staged, self.deployment.rules, baselines, *further)
        verdict = StageVerdict(stage=staged.manifest.stage, digest=staged.manifest.digest, outcomes=outcomes)
        assert not record(self.layout, self.day, verdict).stopping, verdict.stopping


def run_job(deployment: Deployment, day: dt.date) -> None:
    """A day through Dagster."""
    with dg.DagsterInstance.ephemeral() as instance:
        Session(deployment=deployment, definitions=build_definitions(deployment), instance=instance).score(day)


def live(request: dict[str, Any], told: int) -> None:
    """The life of the child."""
    root, day = request["root"], dt.date.fromisoformat(request["day"])
    os.environ |= {"PROFILE_DATA": request.get("remote", root), "PROFILE_WORK": root}
    os.environ |= request.get("environment", {})
    os.environ |= {"PROFILE_CONFIG": f"{root}/profile-{request.get('workers', 1)}.toml"}
    if "largest_file" in request:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error, not a death
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"],) * 2)
    if "user" in request:
        os.setuid(request["user"])
    deployment = load_deployment()
    steps = Steps(root, told, request.get("step"))
    watch(steps)
    if request["through"] == "dagster":
        run_job(deployment, day)
    else:
        Rooms(deployment, day, steps).run()


def start(request: dict[str, Any], gate: int, others: list[int]) -> tuple[int, int]:
    """A child that runs one day once `gate` is closed by all who hold its other end; it, and what tells of it."""
    reading, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for handle in (reading, *others):
                os.close(handle)
            os.read(gate, 1)
            live(request, told)
            os._exit(0)
        except ProfileAssetsError as error:
            os.write(told, f"{type(error).__name__}\t{error}\n".encode())
            os._exit(2)
        finally:  # no way out of the child but these: it must never read the parent's stdin
            traceback.print_exc()
            os._exit(1)
    os.close(told)
    return child, reading


def run(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run days side by side; what became of each."""
    gate, opens_gate = os.pipe()
    children: list[tuple[int, int]] = []
    for request in requests:
        children.append(start(request, gate, [opens_gate, *(reading for _, reading in children)]))
    began = time.perf_counter()
    os.close(gate)
    os.close(opens_gate)
    pairs = zip(requests, children, strict=True)
    for after_s, child in sorted((one["after_s"], child) for one, (child, _) in pairs if "after_s" in one):
        time.sleep(max(0.0, began + after_s - time.perf_counter()))
        os.kill(child, signal.SIGKILL)
    answers = [ended(child, reading) for child, reading in children]
    left = orphans()
    return [{**answer, "seconds": time.perf_counter() - began, "orphans": left} for answer in answers]


def ended(child: int, reading: int) -> dict[str, Any]:
    """Wait for a child; its steps end when it does, and all that it forked."""
    with os.fdopen(reading, encoding="utf-8") as file:
        steps = [line.rstrip("\n").split("\t") for line in file]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"status": status, "steps": steps, "error": steps.pop() if status == 2 else None}


def orphans(wait_s: float = 20.0) -> int:
    """How many processes that children left behind are still there after a while; they are ended."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if not found and time.monotonic() > deadline:
            left = [int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
            for process in left:
                os.kill(process, signal.SIGKILL)
            return len(left)
        time.sleep(0 if found else 0.01)


def main() -> None:
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # or each child copies all that was imported when it first collects
    gc.disable()
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread was started, which a forked child would miss"
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
