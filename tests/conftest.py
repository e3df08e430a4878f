"""What every test may use. A test marked `service(name)` runs only where that server can be started.

Without it the test is skipped and named at the end; under REQUIRE_SERVICES=1 it fails instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

# The machines that run these tests are shared: an example that takes long says nothing.
hypothesis.settings.register_profile("shared", deadline=None, derandomize=os.environ.get("CI") == "true")
hypothesis.settings.load_profile("shared")

PROGRAMS = {"chromium": "chromium", "postgres": "initdb", "redis": "redis-server"}
# Debian keeps PostgreSQL's programs away from the PATH.
WHERE = os.pathsep.join([os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-files", type=int, default=2000, help="mutated source files that the fuzz lands")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("service"):
        name = str(mark.args[0])
        if shutil.which(PROGRAMS[name], path=WHERE) is None:
            pytest.skip(f"{name} is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where every server is promised, a skip is a failure, whoever asked for it; a GPU is never promised."""
    report = yield
    is_excused = hasattr(report, "wasxfail") or item.get_closest_marker("gpu") is not None
    if report.skipped and not is_excused and os.environ.get("REQUIRE_SERVICES") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and REQUIRE_SERVICES=1: {report.longrepr}"
    return report


POSTGRES_PASSWORD = "pass%word"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server of the tests' own, on a socket in a temporary folder."""
    home = Path(tempfile.mkdtemp(prefix="pg"))
    user = None if os.geteuid() else "postgres"
    if user is not None:  # the server refuses to run as root
        shutil.chown(home, user)

    def run(program: str, *arguments: str) -> None:
        command = [str(shutil.which(program, path=WHERE)), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=user, cwd=home)

    (home / "password").write_text(POSTGRES_PASSWORD)
    (home / "password").chmod(0o644)
    run("initdb", "-D", "db", "-U", "scorer", "-A", "scram-sha-256", "--pwfile", "password", "-E", "UTF8", "-N")
    options = f"-c listen_addresses= -c unix_socket_directories={home} -c fsync=off"
    run("pg_ctl", "-D", "db", "-w", "-l", "log", "-o", options, "start")
    yield f"postgresql://scorer:pass%25word@/postgres?host={home}"
    run("pg_ctl", "-D", "db", "-m", "immediate", "stop")
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis server of this session alone, on a socket file. Use it under the mark service("redis")."""
    with tempfile.TemporaryDirectory() as folder:  # a socket's path has to be short
        socket = Path(folder) / "redis.sock"
        options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", folder]
        with subprocess.Popen(["redis-server", *options], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                told = []
                for line in server.stdout:
                    told.append(line)
                    if "accept connections" in line:
                        break
                else:
                    pytest.fail("redis-server did not start:\n" + "".join(told))
                yield f"unix://{socket}"
            finally:
                server.terminate()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that speaks S3, in this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_endpoint(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """That address, with credentials for it in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return s3_server
