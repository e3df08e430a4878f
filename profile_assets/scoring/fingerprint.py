"""What made a score file, as one digest in its footer: a file whose fingerprint is today's need not be made again.

It covers everything that can move a bit of a score: the rows, the bundle (its id digests weights, signature and
feature spec), the source code on the way, the shape of a forward, and the arithmetic of this machine. Times of files
are no part of it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import torch

from profile_assets.scoring.devices import device_kind
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.records import digest_of

FINGERPRINT = "fingerprint"  # its key in a score file's footer
DTYPE = "float32"
_PACKAGE = Path(__file__).parents[1]


@functools.cache
def code_version() -> str:
    """sha256 over the source files that scores pass through: the features, the network and the scoring."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    yield from sorted((_PACKAGE / "features").rglob("*.py"))
    yield from (_PACKAGE / "models" / name for name in ("network.py", "network_base.py"))
    yield from sorted((_PACKAGE / "scoring").rglob("*.py"))


def fingerprint(*, shard_digest: str, bundle_id: str, code: str, settings: ScoringSettings) -> str:
    """The fingerprint of the scores that one shard file would be given here and now."""
    return digest_of(
        {
            "shard": shard_digest,
            "bundle": bundle_id,
            "code": code,
            "batch_rows": settings.batch_rows,
            "threads": settings.threads,
            "device": device_kind(settings.device),
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "torch": str(torch.__version__),
            "dtype": DTYPE,
        }
    )
