"""What every test may use. A test marked `service(name)` runs only where that server can be started.

Without it the test is skipped and named at the end; under REQUIRE_SERVICES=1 it fails instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator

import hypothesis
import pytest

# The machines that run these tests are shared: an example that takes long says nothing.
hypothesis.settings.register_profile("shared", deadline=None, derandomize=os.environ.get("CI") == "true")
hypothesis.settings.load_profile("shared")

PROGRAMS = {"chromium": "chromium"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("service"):
        name = str(mark.args[0])
        if shutil.which(PROGRAMS[name]) is None:
            pytest.skip(f"{name} is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where every server is promised, a skip is a failure, whoever asked for it."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("REQUIRE_SERVICES") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and REQUIRE_SERVICES=1: {report.longrepr}"
    return report
