"""The whole job on the real customers: one root that the tests of this room share, and ways to start their own."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from profile_assets.models.registry import read_pointer
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import Deployment, load_deployment
from profile_assets.users.demo import prepare

ROOT = Path(__file__).parents[2]
TODAY = dt.datetime.now(dt.UTC).date()


@dataclass(frozen=True, kw_only=True)
class World:
    """A deployment with its source prepared and a model trained, and a Dagster instance of its own."""

    deployment: Deployment
    instance: dg.DagsterInstance

    @property
    def session(self) -> Session:
        return Session(
            deployment=self.deployment, definitions=build_definitions(self.deployment), instance=self.instance
        )

    @property
    def days(self) -> list[dt.date]:
        """The three newest days of the demo."""
        return [TODAY - dt.timedelta(days=back) for back in (3, 2, 1)]


@pytest.fixture(scope="session")
def new_instance() -> Callable[[Path], dg.DagsterInstance]:
    """Makes an instance whose state lies below a folder."""

    def make(root: Path) -> dg.DagsterInstance:
        home = root / "dagster"
        home.mkdir()
        return dg.DagsterInstance.local_temp(str(home))

    return make


@pytest.fixture(scope="session")
def demo_world(
    tmp_path_factory: pytest.TempPathFactory, new_instance: Callable[[Path], dg.DagsterInstance]
) -> Iterator[World]:
    """The demo prepared, trained, and its three newest days published. Tests only read it."""
    root = tmp_path_factory.mktemp("demo")
    prepare(root, TODAY)
    deployment = load_deployment(environment={"PROFILE_DATA": str(root)})
    with new_instance(root) as instance:
        world = World(deployment=deployment, instance=instance)
        world.session.train()
        assert read_pointer(deployment.layout, "stable") is not None
        for day in world.days:
            world.session.score(day)
        yield world


@pytest.fixture
def fresh_world(
    demo_world: World, tmp_path: Path, new_instance: Callable[[Path], dg.DagsterInstance]
) -> Iterator[World]:
    """A copy of the demo's source and model with nothing scored yet, to be broken as a test likes."""
    layout = demo_world.deployment.layout
    shutil.copytree(layout.root / "demo", tmp_path / "demo")
    shutil.copytree(layout.models, tmp_path / layout.name / "models")
    with new_instance(tmp_path) as instance:
        deployment = load_deployment(environment={"PROFILE_DATA": str(tmp_path)})
        yield World(deployment=deployment, instance=instance)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Days of a small score, to be run and to die: `SmallDays` of small_days.py. Tests work on copies of its root."""
    place = importlib.util.spec_from_file_location("small_days", Path(__file__).with_name("small_days.py"))
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules[place.name] = module
    place.loader.exec_module(module)
    with module.small_days(tmp_path_factory.mktemp("small")) as days:
        yield days


# --- a world of 200 accounts, for many days ---

SMALL = """
name = "risk"
time_zone = "UTC"
start_day = {first}
[source]
path = "in/{{day}}"
format = "csv"
[contract]
id = "account"
[[contract.columns]]
name = "balance"
type = "float64"
[[contract.columns]]
name = "country"
type = "string"
[labels]
path = "labels/{{day}}"
format = "ndjson"
key = "account"
column = "defaulted"
horizon_days = 1
[training]
first_day = {first}
last_day = {first}
selection_day = {selection}
epochs = 1
[model]
hidden = [8]
embedding_dim = 2
features = [{{ name = "country" }}, {{ name = "balance" }}]
[scoring]
device = "cpu"
[shards]
count = 2
"""


@dataclass(frozen=True, kw_only=True)
class SmallWorld:
    """A table of 200 accounts a day, in CSV; `write_days` writes the newest days up to yesterday, oldest first."""

    root: Path
    profile: Path
    deployment: Deployment

    def source(self, day: dt.date) -> Path:
        return self.root / "in" / str(day) / "a.csv"

    @property
    def days(self) -> list[dt.date]:
        """The days that have been written, oldest first."""
        return sorted(dt.date.fromisoformat(path.name) for path in (self.root / "in").iterdir())

    def write_day(self, day: dt.date, *, rows: int = 200) -> None:
        lines = [f"{n},{(n * 37 + day.day) % 1000}.5,{('DE', 'FR', 'PL')[n % 3]}" for n in range(rows)]
        self.source(day).parent.mkdir(parents=True, exist_ok=True)
        self.source(day).write_text("\n".join(["account,balance,country", *lines]) + "\n")

    def write_training(self, *, every: int = 5) -> None:
        """The days that a model is trained and measured on, with their labels: 1 for `every` so manieth account."""
        training = self.deployment.training
        labels = [f'{{"account": {n}, "defaulted": {int(n % every == 0)}}}' for n in range(200)]
        for day in (training.first_day, training.selection_day):
            self.write_day(day)
            (self.root / "labels" / str(day)).mkdir(parents=True, exist_ok=True)
            (self.root / "labels" / str(day) / "d.ndjson").write_text("\n".join(labels) + "\n")

    def write_days(self, count: int) -> list[dt.date]:
        days = [TODAY - dt.timedelta(days=back) for back in range(count, 0, -1)]
        for day in days:
            self.write_day(day)
        return days


@pytest.fixture(scope="session")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of models of a small world, its bundle stable."""
    from profile_assets.models.making import make_bundle

    world = _small_world(tmp_path_factory.mktemp("small"))
    world.write_training()
    make_bundle(world.deployment.recipe, world.deployment.layout, progress=lambda _: None)
    return world.deployment.layout.models


@pytest.fixture(scope="session")
def new_small_world(small_bundle: Path) -> Callable[[Path], SmallWorld]:
    """Makes a small world with a model and no days yet."""

    def make(root: Path) -> SmallWorld:
        world = _small_world(root)
        shutil.copytree(small_bundle, world.deployment.layout.models)
        return world

    return make


@pytest.fixture
def small_world(new_small_world: Callable[[Path], SmallWorld], tmp_path: Path) -> SmallWorld:
    """A small world with a model and no days yet."""
    return new_small_world(tmp_path)


def _small_world(root: Path) -> SmallWorld:
    first = TODAY - dt.timedelta(days=60)
    profile = root / "risk.toml"
    profile.write_text(SMALL.format(first=first, selection=first + dt.timedelta(days=5)))
    deployment = load_deployment(profile, environment={"PROFILE_DATA": str(root)})
    return SmallWorld(root=root, profile=profile, deployment=deployment)


# --- a real server: `dagster dev`, asked over GraphQL ---

LAUNCH_RUN = """
mutation LaunchRun($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
POOL = """
query Pool($name: String!) {
  instance { concurrencyLimit(concurrencyKey: $name) {
    claimedSlots { runId } pendingSteps { runId assignedTimestamp }
  } }
}
"""
LAUNCH = """
mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
STATUS = (
    "query Status($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
)
RUNS = """
query Runs {
  runsOrError { ... on Runs { results { runId status jobName startTime endTime tags { key value } } } }
}
"""
REEXECUTE = """
mutation Again($params: ReexecutionParams!) {
  reexecutePartitionBackfill(reexecutionParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
TERMINATE = "mutation Stop($id: String!) { terminateRun(runId: $id) { __typename } }"


def wait_for(what: str, ask: Callable[[], Any], timeout_s: float = 600.0) -> Any:
    """Ask until the answer is not None."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        answer = ask()
        if answer is not None:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"{what}: no answer within {timeout_s} s")


class Ui:
    """A running `dagster dev`."""

    def __init__(self, port: int, group: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.group = group

    def kill(self) -> None:
        """End it at once, and all that it started, runs included: as when the machine goes down."""
        os.killpg(self.group, signal.SIGKILL)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            value = json.load(answer)
        assert "errors" not in value, value
        return value["data"]

    def launch(self, job: str, day: dt.date, **tags: str) -> str:
        """Launch a job for a day, as its page does; gives the run's id."""
        selector = {"repositoryLocationName": "profile_assets", "repositoryName": "__repository__", "jobName": job}
        given = {"dagster/partition": str(day), **tags}
        metadata = {"tags": [{"key": key, "value": value} for key, value in given.items()]}
        params = {"selector": selector, "runConfigData": {}, "mode": "default", "executionMetadata": metadata}
        answer = self.ask(LAUNCH_RUN, params=params)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        """One run, as `runs` has it."""
        (found,) = (run for run in self.runs() if run["runId"] == run_id)
        return found

    def pool(self, name: str) -> tuple[list[str], list[str]]:
        """The runs that hold a place in a pool, and those that wait for one."""
        limit = self.ask(POOL, name=name)["instance"]["concurrencyLimit"]
        waits = [step["runId"] for step in limit["pendingSteps"] if not step["assignedTimestamp"]]
        return [slot["runId"] for slot in limit["claimedSlots"]], waits

    def backfill(self, profile: str, names: Sequence[str], days: Sequence[dt.date]) -> str:
        """Launch the assets of those names for those days; gives the backfill's id."""
        params = {
            "assetSelection": [{"path": [profile, name]} for name in names],
            "partitionNames": [str(day) for day in days],
            "fromFailure": False,
        }
        return self._launched(self.ask(LAUNCH, params=params)["launchPartitionBackfill"])

    def failed_and_missing_again(self, backfill: str) -> str:
        """Launch what a backfill did not bring to an end; gives the id of that one."""
        params = {"parentRunId": backfill, "strategy": "FROM_FAILURE"}
        return self._launched(self.ask(REEXECUTE, params=params)["reexecutePartitionBackfill"])

    def _launched(self, answer: dict[str, Any]) -> str:
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    def end_of(self, backfill: str) -> str:
        """Wait until a backfill is over; gives its status."""

        def ended() -> str | None:
            status = str(self.ask(STATUS, id=backfill)["partitionBackfillOrError"]["status"])
            return status if status.startswith(("COMPLETED", "FAILED", "CANCELED")) else None

        return str(wait_for("the backfill", ended))

    def terminate(self, run_id: str) -> None:
        """Cancel a run, as its page does."""
        answer = self.ask(TERMINATE, id=run_id)["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def wait_for(self, what: str, ask: Callable[[], Any], timeout_s: float = 600.0) -> Any:
        """Ask until the answer is not None."""
        return wait_for(what, ask, timeout_s)

    def runs(self) -> list[dict[str, Any]]:
        """Every run, newest first, with its tags as a mapping."""
        runs: list[dict[str, Any]] = self.ask(RUNS)["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in runs]

    def day_runs(self) -> dict[str, list[dict[str, Any]]]:
        """The runs of each day, newest first."""
        found: dict[str, list[dict[str, Any]]] = {}
        for run in self.runs():
            if "dagster/partition" in run["tags"]:
                found.setdefault(run["tags"]["dagster/partition"], []).append(run)
        return found

    def is_up(self) -> bool | None:
        with contextlib.suppress(OSError):
            return bool(self.ask("query { repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"))
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and what it started: asked first, then by force, so that nothing outlives the test."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):  # it may be dead already
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
    with contextlib.suppress(ProcessLookupError):  # a code server may hang over its own end, long after its parent's
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


class Servers(contextlib.ExitStack):
    """Starts `dagster dev` as a user does; what it started ends with it."""

    def start(self, home: Path, *, instance: str = "dagster.yaml", more: str = "", **environment: str) -> Ui:
        """In a folder with the repository's workspace.yaml, and a dagster.yaml of the repository's with `more`."""
        (home / "dagster.yaml").write_text((ROOT / instance).read_text() + more)
        shutil.copy(ROOT / "workspace.yaml", home / "workspace.yaml")
        (home / "data").mkdir(exist_ok=True)
        port, log = free_port(), self.enter_context((home / "dev.log").open("a"))
        server = subprocess.Popen(
            [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=home,
            env={**os.environ, "PROFILE_DATA": str(home), **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A suite that runs in the background ignores SIGINT, and so would what `dagster dev` stops by it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.callback(stop, server)
        ui = Ui(port, server.pid)

        def is_up() -> Any:
            assert server.poll() is None, f"dagster dev ended:\n{(home / 'dev.log').read_text()[-3000:]}"
            return ui.is_up()

        wait_for("dagster dev", is_up)
        return ui


@pytest.fixture
def dagster_dev() -> Iterator[Callable[..., Ui]]:
    """Starts a `dagster dev` of the test's own."""
    with Servers() as servers:
        yield servers.start


@pytest.fixture(scope="module")
def dagster_dev_for_all() -> Iterator[Servers]:
    """The same for the tests of a file: `start` one, `close` to end them."""
    with Servers() as servers:
        yield servers
