"""What made a score file, as one digest in its footer: a file whose fingerprint is today's need not be made again.

It covers everything that can move a bit of a score: the rows, the bundle (its id digests weights, signature and
feature spec), the source code on the way, the shape of a forward, and the arithmetic of this machine. Times of files
are no part of it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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


def fingerprint(
    *,
    shard_digest: str,
    bundle_id: str,
    code: str,
    settings: ScoringSettings,
    carried_from: str | None = None,
    canary: Mapping[str, Any] | None = None,
) -> str:
    """The fingerprint of the scores that one shard file would be given here and now.

    `carried_from` is the digest of the scores that may be carried, empty where there are none, None for a day that is
    scored in full. The scores are the same bits each time; but what was carried from scores that have since been
    replaced, because they were wrong, must not be kept. `canary` tells of the bundle that scores a share of the users.
    """
    made_by = maker(bundle_id=bundle_id, code=code, settings=settings)
    carried = {} if carried_from is None else {"carried_from": carried_from}
    shared = {} if canary is None else {"canary": dict(canary)}
    return digest_of({"shard": shard_digest, "maker": made_by, **carried, **shared})


def maker(*, bundle_id: str, code: str, settings: ScoringSettings) -> str:
    """What turns an encoded row into its score: the same input by the same maker has the same score, to the bit."""
    return digest_of(
        {
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
