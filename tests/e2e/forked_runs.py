"""Runs as processes forked from a warm one: a run launcher for tests that launch many runs.

A run of its own imports Dagster, torch and Great Expectations anew, ten seconds of a processor for a second of work.
Here one process imports them once, runs nothing itself, and forks a child for each run. Queue, daemon and storage are
the real ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

from dagster._core.instance import InstanceRef
from dagster._core.launcher import LaunchRunContext, RunLauncher
from dagster._serdes import ConfigurableClass, ConfigurableClassData, deserialize_value, serialize_value


class ForkedRuns(RunLauncher, ConfigurableClass):
    """Hands each run to the warm process, which it starts with the first one."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        self._warm: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        super().__init__()

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: dict[str, Any]) -> ForkedRuns:
        assert not config_value
        return cls(inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        with self._lock:
            if self._warm is None:
                reference = serialize_value(self._instance.get_ref())
                command = [sys.executable, __file__, reference]
                self._warm = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
            assert self._warm.stdin is not None
            print(context.dagster_run.run_id, file=self._warm.stdin, flush=True)

    def terminate(self, run_id: str) -> bool:
        raise NotImplementedError(run_id)


def run(reference: str, run_id: str) -> None:
    from dagster import DagsterInstance
    from dagster._core.execution.api import execute_run
    from dagster._utils.hosted_user_process import recon_job_from_origin

    with DagsterInstance.from_ref(deserialize_value(reference, InstanceRef)) as instance:
        found = instance.get_run_by_id(run_id)
        assert found is not None
        execute_run(recon_job_from_origin(found.job_code_origin), found, instance)


def main() -> None:
    import warnings

    warnings.simplefilter("ignore")
    import great_expectations
    import torch  # noqa: F401

    import profile_assets.definitions
    import profile_assets.feature_store.publish
    import profile_assets.scoring.day
    import profile_assets.users.land  # noqa: F401

    assert great_expectations.__version__
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                run(sys.argv[1], line.strip())
            except BaseException:
                traceback.print_exc()
                raise
            finally:  # no way out of the child but this one: it must never read the parent's stdin
                os._exit(0)


if __name__ == "__main__":
    main()
