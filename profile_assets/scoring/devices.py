"""Where a network runs: the processor, or a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from profile_assets.errors import ProfileError
from profile_assets.scoring.settings import Device


def resolve(device: Device) -> str:
    """ "cpu" or "cuda"; ProfileError where a GPU is asked for and none is there."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ProfileError(
            "scoring.device is cuda, but torch sees no GPU here",
            remedy='set it to "auto" or "cpu", or run where a GPU and a CUDA build of torch are',
        )
    return "cuda" if has_gpu and device != "cpu" else "cpu"


def device_kind(device: Device) -> str:
    """The kind of device, for fingerprints: two GPUs of one name compute the same."""
    return f"cuda {torch.cuda.get_device_name()}" if resolve(device) == "cuda" else "cpu"


def share_memory(
    device: str,
    fraction: float | None,
    *,
    limit: Callable[[float], None] = torch.cuda.set_per_process_memory_fraction,
) -> None:
    """Take no more than that share of a GPU's memory in this process; more raises torch.OutOfMemoryError.

    It holds for the device that this process uses, until it ends: what else runs there keeps the rest.
    """
    if device == "cuda" and fraction is not None:
        limit(fraction)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads inside; as many as before afterwards."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
