"""Everything that an alert meets outside: HTTP endpoints that answer as told, an SMTP server, days on a disk."""

from __future__ import annotations

import datetime as dt
import http.server
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from profile_assets.alerts.settings import AlertSettings, ChannelSettings
from profile_assets.alerts.watch import Watch
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.feature_store.versions import Pace, version_of
from profile_assets.quality.freshness import DueRule
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.published import (
    BUCKET,
    FOOTER_KEY,
    OFFLINE,
    ONLINE,
    PublishRecord,
    TargetState,
    write_record,
)
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, Verdict, write_verdict
from profile_assets.users.source import SourceSettings

ZONE = "Europe/Berlin"
START = dt.date(2026, 3, 1)


@dataclass
class Reply:
    """What the endpoint answers next."""

    status: int = 200
    body: str = "ok"
    headers: dict[str, str] = field(default_factory=dict)
    is_slow: bool = False


class Endpoint:
    """A real HTTP server: keeps what is posted to it, answers with `replies` one by one, then with `reply`."""

    def __init__(self) -> None:
        self.reply = Reply()
        self.replies: list[Reply] = []
        self.received: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self._let_go = threading.Event()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.paths.append(self.path)
                endpoint.received.append(json.loads(body))
                self.answer()

            def do_GET(self) -> None:
                endpoint.paths.append(self.path)
                self.answer()

            def answer(self) -> None:
                reply = endpoint.replies.pop(0) if endpoint.replies else endpoint.reply
                if reply.is_slow:
                    endpoint._let_go.wait()
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body.encode())))
                self.end_headers()
                self.wfile.write(reply.body.encode())

            def log_message(self, *_: object) -> None:
                """Quietly."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def titles(self) -> list[str]:
        """Titles of what came to an endpoint of the generic kind."""
        return [one["title"] for one in self.received]

    def close(self) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture
def dead_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Mailbox:
    """A small SMTP server: keeps messages; `refusal` is what it says to MAIL FROM instead of taking one."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.refusal = ""
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Conversation)
        self._server.daemon_threads = True
        self._server.mailbox = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Conversation(socketserver.StreamRequestHandler):
    """One SMTP session."""

    def handle(self) -> None:
        self.say("220 mail.example ready")
        while line := self.rfile.readline().decode().strip():
            self.answer(line.upper())
            if line.upper().startswith("QUIT"):
                return

    def answer(self, command: str) -> None:
        mailbox: Mailbox = self.server.mailbox  # type: ignore[attr-defined]
        if command.startswith("MAIL") and mailbox.refusal:
            self.say(mailbox.refusal)
        elif command == "DATA":
            self.say("354 go on")
            mailbox.messages.append(self.message())
            self.say("250 taken")
        else:
            self.say("221 bye" if command.startswith("QUIT") else "250 fine")

    def message(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode()) != ".\r\n":
            lines.append(line)
        return "".join(lines)

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    server = Mailbox()
    yield server
    server.close()


SOURCES = {RAW_USERS: "r" * 64, USER_SHARDS: "s" * 64, USER_SCORES: "c" * 64}


class Days:
    """Days of a profile as publications leave them, without the work: records, verdicts, files of the table."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root=root, name="risk")
        self.source = root / "in"

    def publish(
        self,
        day: dt.date,
        *,
        rows: int = 1000,
        online: str | None = None,
        at: dt.datetime = dt.datetime(2026, 4, 1, tzinfo=dt.UTC),
        note: str = "",
        copy: str | None = None,
    ) -> None:
        """What readers see of a day, with a verdict that passed."""
        verdict = self.judge(day)
        targets = {OFFLINE: TargetState(state="done", at=at)}
        if online is not None:
            targets[ONLINE] = TargetState(state=online, at=at, note=note)  # type: ignore[arg-type]
        if copy is not None:
            targets[BUCKET] = TargetState(state=copy, at=at)  # type: ignore[arg-type]
        record = PublishRecord(
            day=day,
            rows=rows,
            keys=KeySet(),
            verdict_digest=verdict.digest,
            sources=SOURCES,
            bundle_id="b-1",
            targets=targets,
        )
        part = self.layout.offline_part(day)
        part.parent.mkdir(parents=True, exist_ok=True)
        footer = {FOOTER_KEY: json.dumps(record.to_json())}
        with ParquetSink(part, pa.schema([("user_id", pa.string())]), footer=footer):
            pass
        write_record(self.layout, record)
        if online == "done":
            self.serve(record)

    def serve(self, record: PublishRecord) -> None:
        """The store of lookups has this publication, and it is live unless a newer day is."""
        version = version_of(record, record.published_at + dt.timedelta(hours=48))
        store = SqliteStore(self.layout)
        store.build(version, [], Pace())
        store.advance(version)

    def judge(self, day: dt.date, *failed: Outcome, stage: str = USER_SHARDS) -> Verdict:
        """A verdict in which every check passed but for these of one stage."""
        names = {one.check for one in failed}
        stages = {
            name: StageVerdict(
                stage=name,
                digest=SOURCES[name],
                outcomes=(
                    *(Outcome(check=check, result="pass", detail="") for check in CHECKS[name] if check not in names),
                    *(failed if name == stage else ()),
                ),
            )
            for name in SOURCES
        }
        verdict = Verdict(day=day, stages=stages)
        write_verdict(self.layout, verdict)
        return verdict

    def deliver(self, *days: dt.date) -> None:
        """The source of these days is there."""
        for day in days:
            folder = self.source / str(day)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "a.csv").write_text("account\n1\n")
            (folder / "_SUCCESS").touch()

    def take_back(self, day: dt.date) -> None:
        """The day is not in the table any more."""
        self.layout.offline_part(day).unlink()
        self.layout.publish_record(day).unlink()


@pytest.fixture
def days(tmp_path: Path) -> Days:
    return Days(tmp_path)


@pytest.fixture
def watch(days: Days) -> Callable[..., Watch]:
    """A watch over these days, with one channel that gets everything."""

    def make(
        *channels: ChannelSettings,
        has_lookups: bool = False,
        online: OnlineSettings | None = None,
        has_copy: bool = False,
        **settings: Any,
    ) -> Watch:
        settings.setdefault("group_minutes", 0)
        return Watch(
            layout=days.layout,
            rule=DueRule(time_zone=ZONE, hour=2, grace_hours=2, start_day=START),
            source=SourceSettings(path=f"{days.source}/{{day}}", format="csv", success_marker="_SUCCESS"),
            online=online or (OnlineSettings() if has_lookups else None),
            has_copy=has_copy,
            settings=AlertSettings(channels=channels or (ChannelSettings(url_env="ALERTS"),), **settings),
        )

    return make


def berlin(day: dt.date, hour: float) -> dt.datetime:
    """The moment at which Berlin's clock shows that hour of the day."""
    from profile_assets.storage.days import wall_clock

    return wall_clock(day, hour, ZONE)


@pytest.fixture
def at() -> Callable[[dt.date, float], dt.datetime]:
    return berlin
