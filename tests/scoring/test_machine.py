"""What may be used of a machine, as its control files say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profile_assets.scoring.engines.machine import usable_cores, usable_memory_bytes


@pytest.fixture
def write(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text + "\n", encoding="utf-8")
        return tmp_path

    return write


def test_a_container_may_have_fewer_cores_than_the_machine(write) -> None:  # type: ignore[no-untyped-def]
    allowed = len(os.sched_getaffinity(0))
    assert usable_cores(write()) == allowed
    assert usable_cores(write(cpu_max="max 100000")) == allowed
    assert usable_cores(write(cpu_max="100000 100000")) == 1
    assert usable_cores(write(cpu_max="50000 100000")) == 1


def test_a_container_may_have_less_memory_than_the_machine(write) -> None:  # type: ignore[no-untyped-def]
    folder = write(meminfo="MemTotal: 99 kB\nMemAvailable:    2048 kB")
    meminfo = folder / "meminfo"
    assert usable_memory_bytes(folder, meminfo) == 2048 * 1024
    assert usable_memory_bytes(write(memory_max="max", memory_current="5"), meminfo) == 2048 * 1024
    assert usable_memory_bytes(write(memory_max="1000", memory_current="400"), meminfo) == 600
    assert usable_memory_bytes(write(memory_max="1000", memory_current="4000"), meminfo) == 0


def test_a_system_that_does_not_say_is_not_guessed_at(tmp_path: Path) -> None:
    assert usable_memory_bytes(tmp_path, tmp_path / "meminfo") is None
