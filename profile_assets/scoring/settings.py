"""How a network is run over the rows of a day. Knows no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profile_assets.errors import ProfileError

Device = Literal["auto", "cpu", "cuda"]
Mode = Literal["full", "incremental"]
BATCH_MULTIPLE = 256


@dataclass(frozen=True, kw_only=True)
class ScoringSettings:
    """`batch_rows` is the one shape of every forward; the last one is padded to it.

    `finds_batch`: on a GPU, look for the best shape from `batch_rows` upwards, once for a bundle and kind of device.
    `device` "auto" takes a GPU where there is one. `threads` are torch's, in each scoring process. `workers` is the
    number of scoring processes; None chooses it from cores, memory and devices, and 1 scores in this process.
    `mode` "incremental" carries the scores of users whose model input has not changed since an earlier day.

    What else lives on a GPU keeps its share: each process takes at most `memory_fraction` of it (None: all there is),
    and the best shape is looked for up to `max_batch_rows`: shorter forwards keep nobody waiting for long.
    """

    batch_rows: int = 4096
    finds_batch: bool = False
    device: Device = "auto"
    threads: int = 1
    workers: int | None = None
    mode: Mode = "full"
    memory_fraction: float | None = None
    max_batch_rows: int | None = None

    def __post_init__(self) -> None:
        if self.batch_rows < BATCH_MULTIPLE or self.batch_rows % BATCH_MULTIPLE:
            raise ProfileError(
                f"batch_rows is {self.batch_rows}", remedy=f"give a multiple of {BATCH_MULTIPLE}: 4096 is best on a CPU"
            )
        if self.threads < 1 or (self.workers is not None and self.workers < 1):
            raise ProfileError(
                f"{self.threads} threads, {self.workers} workers", remedy="give at least one, or leave workers out"
            )
        if self.memory_fraction is not None and not 0 < self.memory_fraction <= 1:
            raise ProfileError(
                f"memory_fraction is {self.memory_fraction}", remedy="give a share of the device, such as 0.5"
            )
