"""What is run apart in the tests: importable by a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from profile_assets.errors import DataError


def double(number: int) -> dict[str, Any]:
    return {"doubled": 2 * number, "pid": os.getpid(), "group": os.getpgid(0)}


def refuse(number: int) -> dict[str, Any]:
    raise DataError(f"{number} is no day", remedy="name one")


def break_off(number: int) -> dict[str, Any]:
    raise ZeroDivisionError(number)


def hang(folder: str) -> dict[str, Any]:
    """Start a process that hangs as well, say who both are, and never come back."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(folder, "pids.part").write_text(f"{os.getpid()} {child.pid}")
    Path(folder, "pids.part").rename(Path(folder, "pids"))
    while True:
        time.sleep(3600)


def leave(status: int) -> dict[str, Any]:
    os._exit(status)


def die(_: int) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def babble(_: int) -> dict[str, Any]:
    return {"mean": float("nan")}


def drop(_: int) -> Any:
    return "not what was asked for"
