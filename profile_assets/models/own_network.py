"""A network of one's own, named in the profile by its import path: "package.module:Class".

Nothing that lies in a bundle is ever imported: the module is one that this Python finds anyway, and only a subclass
of `Network` is called. Its source is part of the model: a bundle holds its digest.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path

from profile_assets.errors import BundleError
from profile_assets.models.network_base import Network
from profile_assets.models.settings import ARCHITECTURES


def import_network(architecture: str) -> type[Network]:
    """The class at an import path. BundleError where there is none, or it is no network."""
    module, _, name = architecture.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise unusable_network(architecture, str(error)) from error
    if not (isinstance(found, type) and issubclass(found, Network)):
        raise unusable_network(architecture, "it is no subclass of profile_assets.models.network.Network")
    return found


def own_code_digest(architecture: str) -> str | None:
    """sha256 of the source of a network of one's own; None for the package's own networks, whose code is known."""
    if architecture in ARCHITECTURES:
        return None
    import_network(architecture)
    spec = importlib.util.find_spec(architecture.partition(":")[0])
    if spec is None or spec.origin is None:
        raise unusable_network(architecture, "its source is not to be found")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def unusable_network(architecture: str, why: str) -> BundleError:
    return BundleError(
        f"the network {architecture!r} cannot be used: {why}",
        remedy="install the package that holds it on this machine, or name wide_and_deep or deepfm",
    )
