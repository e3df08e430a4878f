"""A backfill from the UI's own door: a real `dagster dev` with its daemon, asked over GraphQL."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profile_assets.feature_store.read import read_day
from profile_assets.storage.published import published_days

ROOT = Path(__file__).parents[2]

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
RUNS = "query Runs { runsOrError { ... on Runs { results { runId status jobName tags { key value } } } } }"


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

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            value = json.load(answer)
        assert "errors" not in value, value
        return value["data"]

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
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture
def ui(fresh_world: Any) -> Iterator[Ui]:
    """`dagster dev` as a user starts it: in a folder with the repository's two files, on a state of its own."""
    home, port = fresh_world.deployment.root, free_port()
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(ROOT / name, home / name)
    (home / "data").mkdir()
    with (home / "dev.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=home,
            env={**os.environ, "PROFILE_DATA": str(home)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A suite that runs in the background ignores SIGINT, and so would what `dagster dev` stops by it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            running = Ui(port)
            wait_for("dagster dev", running.is_up)
            yield running
        finally:
            stop(server)


@pytest.mark.timeout(1200)
def test_three_days_with_everything_selected_are_one_run_a_day_and_one_for_the_model(ui: Ui, fresh_world: Any):
    layout, days = fresh_world.deployment.layout, fresh_world.days
    names = ("raw_users", "user_shards", "user_scores", "feature_store_export", "model_bundle")
    params = {
        "assetSelection": [{"path": [layout.name, name]} for name in names],
        "partitionNames": [str(day) for day in days],
        "fromFailure": False,
    }
    launched = ui.ask(LAUNCH, params=params)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def ended() -> str | None:
        status = ui.ask(STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"]
        return status if status.startswith(("COMPLETED", "FAILED", "CANCELED")) else None

    assert wait_for("the backfill", ended) == "COMPLETED_SUCCESS"
    runs = ui.ask(RUNS)["runsOrError"]["results"]
    partitions = sorted(tag["value"] for run in runs for tag in run["tags"] if tag["key"] == "dagster/partition")
    assert partitions == [str(day) for day in days]
    assert len(runs) == len(days) + 1, [(run["jobName"], run["status"]) for run in runs]
    assert {run["status"] for run in runs} == {"SUCCESS"}
    assert published_days(layout) == days
    assert [read_day(layout, day).num_rows for day in days] == [23_570] * 3
