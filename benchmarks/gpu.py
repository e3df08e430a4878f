"""One device: forward only by batch, end to end from disk to disk, and how much of that time the device was busy.

    python -m benchmarks.gpu --users 4000000            # on a CUDA device
    python -m benchmarks.gpu --device cpu --users 200000

Needs numpy, pyarrow, torch and safetensors, nothing else. Prints a Markdown table; the best batch is the one that is
fastest end to end; beside it stands the batch that a day would choose by itself. Busy time is that in which at least
one forward ran (CUDA events around each, on the stream of its lane), without the copies to and from the device.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from profile_assets.calibration import fresh_bundle
from profile_assets.features.encode import encode
from profile_assets.models.bundle import Bundle, load_bundle
from profile_assets.scoring.scorer import Scorer
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.tuning import find_rows
from profile_assets.storage.parquet import iter_batches
from profile_assets.users.day_folders import PART_FILE, day_folder
from profile_assets.users.generate import generate

DAY = dt.date(2026, 1, 5)
BATCHES = (4_096, 16_384, 65_536, 262_144, 1_048_576)
SAMPLE_USERS = 500_000
REPEATS, INPUT_SETS = 20, 4


@dataclass(frozen=True, kw_only=True)
class Row:
    """One batch size: users per second by forwards alone and end to end, and the forwards' share of the latter."""

    batch: int
    forward_per_s: float
    whole_per_s: float
    busy: float


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sample = _users(root / "sample", min(options.users, SAMPLE_USERS))
        bundle_path = fresh_bundle(root / "models", sample)
        source = _users(root / "all", options.users)
        read_s = min(_read_s(source, bundle_path) for _ in range(2))
        rows = [_row(batch, bundle_path, source, options) for batch in BATCHES if batch <= options.users]
        chosen = find_rows(bundle_path, ScoringSettings(device=options.device))
    print(f"device: {_name(options.device)}; torch {torch.__version__}; {options.users:,} users in one file")
    print(f"read only, one process: {options.users / read_s:,.0f} users/s\n")
    print("| batch | forward only, users/s | end to end, users/s | end to end over read only | device busy |")
    print("|---|---|---|---|---|")
    for row in rows:
        share = row.whole_per_s * read_s / options.users
        print(f"| {row.batch:,} | {row.forward_per_s:,.0f} | {row.whole_per_s:,.0f} | {share:.2f} | {row.busy:.0%} |")
    best = max(rows, key=lambda row: row.whole_per_s)
    print(f"\nbest batch: {best.batch:,}; found by doubling: {chosen:,}")


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--users", type=int, default=4_000_000)
    return parser.parse_args()


def _users(root: Path, count: int) -> Path:
    return day_folder(generate(root, count, [DAY]).users, DAY) / PART_FILE


def _name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def _read_s(source: Path, bundle_path: Path) -> float:
    spec = load_bundle(bundle_path).spec
    categories = [one.name for one in spec.categorical]
    began = time.perf_counter()
    for _ in iter_batches(source, columns=["user_id", *spec.columns], dictionary=categories):
        pass
    return time.perf_counter() - began


def _row(batch: int, bundle_path: Path, source: Path, options: Any) -> Row:
    scorer = Scorer(load_bundle(bundle_path, options.device), ScoringSettings(device=options.device, batch_rows=batch))
    forward_s = _forward_s(scorer.bundle, source, scorer.batch_rows, options.device)
    busy = _BusyTime(device=options.device)
    target = source.with_name("scores.parquet")
    scorer.score_file(source, target)
    with busy.watching(scorer.bundle.inference):
        began = time.perf_counter()
        scorer.score_file(source, target)
        whole_s = time.perf_counter() - began
    return Row(
        batch=scorer.batch_rows,
        forward_per_s=scorer.batch_rows / forward_s,
        whole_per_s=options.users / whole_s,
        busy=busy.seconds() / whole_s,
    )


def _forward_s(bundle: Bundle, source: Path, batch: int, device: str) -> float:
    """Median seconds of one forward on tensors that lie on the device, which take turns so that no cache holds them."""
    inputs = [_tensors(bundle, source, batch, device, seed) for seed in range(INPUT_SETS)]
    times = []
    with torch.inference_mode():
        for number in range(REPEATS + INPUT_SETS):
            numeric, categories = inputs[number % INPUT_SETS]
            times.append(_timed(partial(_forward, bundle, numeric, categories), device))
    return statistics.median(times[INPUT_SETS:])


def _forward(bundle: Bundle, numeric: Tensor, categories: Tensor) -> Tensor:
    return torch.sigmoid(bundle.inference(numeric, categories))


def _tensors(bundle: Bundle, source: Path, batch: int, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """A batch of real rows drawn with repetition: the memory pattern of the lookups is that of the users."""
    encoded = encode(next(iter_batches(source)), bundle.spec)
    rows = torch.randint(encoded.rows, (batch,), generator=torch.Generator().manual_seed(seed))
    numeric, categories = torch.from_numpy(encoded.numeric), torch.from_numpy(encoded.categories)
    return numeric[:, rows].contiguous().to(device), categories[:, rows].contiguous().to(device)


def _timed(work: Callable[[], object], device: str) -> float:
    if device == "cpu":
        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def covered(spans: Sequence[tuple[float, float]]) -> float:
    """How much time lies in at least one of the spans: forwards on two streams may overlap."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


@dataclass(kw_only=True)
class _BusyTime:
    """Marks on the device's own clock around every forward of a module."""

    device: str
    marks: list[Any] = field(default_factory=list)

    @contextlib.contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Mark each forward inside the block."""
        before = module.register_forward_pre_hook(lambda *_: self._mark())
        after = module.register_forward_hook(lambda *_: self._mark())
        yield
        before.remove()
        after.remove()

    def seconds(self) -> float:
        if not self.marks:
            return 0.0
        if self.device == "cpu":
            times = [mark - self.marks[0] for mark in self.marks]
        else:
            torch.cuda.synchronize()
            times = [self.marks[0].elapsed_time(mark) / 1000 for mark in self.marks]
        return covered(list(zip(times[::2], times[1::2], strict=True)))

    def _mark(self) -> None:
        if self.device == "cpu":
            self.marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self.marks.append(event)


if __name__ == "__main__":
    main()
