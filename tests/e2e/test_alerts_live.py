"""A live `dagster dev`: a stale table is told once, by a sensor that was never switched on by hand, and over once."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profile_assets.profile import load_deployment
from profile_assets.profile.loading import default_profile

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3tt0k3n"
# The demo's features drift by nature, of which this channel wants to know nothing.
ALERTS = """
[[alerts.channels]]
url_env = "ALERTS"
kinds = ["stale", "source_late", "pending_target", "run_failed", "gate_failed", "quarantine", "unjudged"]
"""


def wait_until(what: str, is_so: Callable[[], bool], timeout_s: float = 300.0) -> None:
    give_up = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < give_up, f"{what}: not within {timeout_s} s"
        time.sleep(0.2)


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a webhook, and what it got."""
    received: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quietly."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"json://127.0.0.1:{server.server_address[1]}/{SECRET}", received
        server.shutdown()


@contextlib.contextmanager
def dagster_dev(home: Path, environment: dict[str, str]) -> Iterator[None]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (home / "dev.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=home,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


@pytest.mark.timeout(900)
def test_a_stale_table_is_told_once_and_publishing_it_is_the_end(demo_world: Any, tmp_path: Path, hook: Any):
    url, received = hook
    world = demo_world.deployment.layout
    shutil.copytree(world.root / "demo", tmp_path / "demo")
    shutil.copytree(world.home, tmp_path / world.name)
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "data").mkdir()
    profile = tmp_path / "told.toml"
    profile.write_text(default_profile().read_text() + ALERTS)
    named = {"PROFILE_DATA": str(tmp_path), "PROFILE_CONFIG": str(profile), "ALERTS": url}
    environment = {**os.environ, **named, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    layout, day = load_deployment(environment=named).layout, demo_world.days[0]
    for path in (layout.offline_part(day), layout.publish_record(day)):
        path.unlink()
    heartbeat = layout.alerts / "heartbeat.json"

    def next_look() -> None:
        before = heartbeat.read_text()
        wait_until("another look", lambda: heartbeat.read_text() != before)

    with dagster_dev(tmp_path, environment):
        wait_until("the alert", lambda: len(received) > 0)
        next_look()
        assert [one["title"] for one in received] == [f"[ERROR] purchase_30d: stale, {day} is not published"]
        command = [sys.executable, "-m", "profile_assets.cli", "publish", str(day)]
        subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
        wait_until("its end", lambda: len(received) > 1)
        next_look()
        assert [one["title"] for one in received[1:]] == [f"[RECOVERED] purchase_30d: {day} is published"]
    logged = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.log"))
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*.db*"))
    assert SECRET not in logged
    assert SECRET.encode() not in stored
