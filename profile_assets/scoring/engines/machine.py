"""What this process may use of its machine: cores and memory, within the limits of a container."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores that this process may run on, no more than its container's quota pays for; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _numbers(cgroup / "cpu.max")
    return max(1, min(allowed, quota[0] // quota[1]) if len(quota) == 2 else allowed)


def usable_memory_bytes(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> int | None:
    """Memory that is free to take, no more than the container's limit leaves; None where the system does not say."""
    known = []
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines() if ":" in line)
        if "MemAvailable" in lines:
            known.append(int(lines["MemAvailable"].split()[0]) * 1024)
    limit, used = _numbers(cgroup / "memory.max"), _numbers(cgroup / "memory.current")
    if limit and used:
        known.append(max(0, limit[0] - used[0]))
    return min(known, default=None)


def _numbers(path: Path) -> list[int]:
    """The numbers of a control file; none where it is absent or says "max"."""
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    return [] if "max" in words else [int(word) for word in words]
