"""The instance of the command line can be opened for the first time by several at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 4
OPENS = """
import os, sys
from profile_assets.orchestration.instance import open_instance

print("ready", flush=True)
for home in sys.stdin:
    os.chdir(home.strip())
    with open_instance() as instance:
        print(instance.get_runs_count(), len(instance.event_log_storage.get_pool_limits()), flush=True)
"""


def test_two_that_open_a_new_instance_at_once_both_have_it(tmp_path):
    """Two processes wait, warm, and are let go together, once for each of some folders."""
    homes = [tmp_path / str(n) for n in range(ROUNDS)]
    for home in homes:
        (home / "data").mkdir(parents=True)
        (home / "dagster.yaml").write_bytes((ROOT / "dagster.yaml").read_bytes())
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", OPENS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    for process in pair:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for home in homes:
        for process in pair:
            print(home, file=process.stdin, flush=True)
        assert [process.stdout.readline() for process in pair if process.stdout] == ["0 0\n", "0 0\n"]
    for process in pair:
        process.communicate()
        assert process.returncode == 0
