"""The environment that a bundle was made in: what else, beside data, code, settings and seeds, decides its weights."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import numpy as np
import pyarrow as pa
import torch

from profile_assets.storage.records import digest_of

IMAGE_DIGEST = "PROFILE_IMAGE_DIGEST"


def environment() -> dict[str, str | None]:
    """Versions, the processor's instructions, a digest of every installed package, and the image's where it is set."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "device": "cpu",
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "lock_digest": digest_of(_installed()),
        "image_digest": os.environ.get(IMAGE_DIGEST) or None,
    }


def _installed() -> list[str]:
    """`name==version` of every package there is, sorted: what a lock file of this environment would say."""
    return sorted({f"{one.name}=={one.version}" for one in importlib.metadata.distributions()})
