"""What every start of a process of our own needs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def main_unseen() -> Iterator[None]:
    """Hide the running script from a process that is started: it would import it again, and all that it imports."""
    main = sys.modules["__main__"]
    file, spec = main.__dict__.pop("__file__", None), main.__spec__
    main.__spec__ = None
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file
