"""The way of one batch through a device: its rows in, a forward, its probabilities out.

A lane holds one batch. `numeric` (F, rows) float32 and `categories` (C, rows) int32 are the caller's to fill until
`start`, and again after `finish`, which waits and gives the probabilities, (rows,), valid until the next `start`.
A processor has one lane. A GPU has two, each with a stream and page-locked memory of its own, so that one batch is
copied while the other is computed. torch.OutOfMemoryError comes from making a lane, or from `start`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

Forward: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Lane(Protocol):
    """See the module."""

    numeric: np.ndarray
    categories: np.ndarray

    def start(self) -> None: ...

    def finish(self) -> np.ndarray: ...


MakeLanes: TypeAlias = Callable[[str, Forward, int, int, int], Sequence[Lane]]


def make_lanes(device: str, forward: Forward, num_numeric: int, num_categories: int, rows: int) -> Sequence[Lane]:
    """The lanes of a device for batches of `rows` rows."""
    if device == "cpu":
        return [CpuLane(forward, num_numeric, num_categories, rows)]
    torch.cuda.synchronize()  # the weights came on another stream
    return [CudaLane(forward, num_numeric, num_categories, rows) for _ in range(2)]


class CpuLane:
    """Computes at once, from torch's own memory, so that its alignment is always the same."""

    def __init__(self, forward: Forward, num_numeric: int, num_categories: int, rows: int) -> None:
        self._forward = forward
        self._inputs = _inputs(num_numeric, num_categories, rows, is_pinned=False)
        self.numeric, self.categories = (tensor.numpy() for tensor in self._inputs)
        self._scores = np.empty(0, np.float32)

    def start(self) -> None:
        self._scores = torch.sigmoid(self._forward(*self._inputs)).numpy()

    def finish(self) -> np.ndarray:
        return self._scores


class CudaLane:
    """Everything between `start` and `finish` is queued on the lane's own stream; the processor waits for nothing."""

    def __init__(self, forward: Forward, num_numeric: int, num_categories: int, rows: int) -> None:
        self._forward = forward
        self._inputs = _inputs(num_numeric, num_categories, rows, is_pinned=True)
        self.numeric, self.categories = (tensor.numpy() for tensor in self._inputs)
        self._scores = torch.empty(rows, dtype=torch.float32, pin_memory=True)
        self._stream, self._done = torch.cuda.Stream(), torch.cuda.Event()

    def start(self) -> None:
        with torch.cuda.stream(self._stream):
            numeric, categories = (tensor.to("cuda", non_blocking=True) for tensor in self._inputs)
            self._scores.copy_(torch.sigmoid(self._forward(numeric, categories)), non_blocking=True)
            self._done.record(self._stream)

    def finish(self) -> np.ndarray:
        self._done.synchronize()
        return self._scores.numpy()


def _inputs(num_numeric: int, num_categories: int, rows: int, *, is_pinned: bool) -> tuple[Tensor, Tensor]:
    return (
        torch.zeros(num_numeric, rows, dtype=torch.float32, pin_memory=is_pinned),
        torch.zeros(num_categories, rows, dtype=torch.int32, pin_memory=is_pinned),
    )
