"""What the store of lookups serves, asked of the store itself: cheap enough for every look, and never an error.

A record says what was brought there once. Whether it is there still, only the store knows; on S3 the embedded one is
each machine's own.
"""

from __future__ import annotations

from profile_assets.errors import CorruptError, ProfileAssetsError
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.settings import OnlineSettings
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import Live

_TIMEOUT_S = 2.0
_RETRIES = 3  # a server that restarts is back by then, and nobody is told of it


def ask(layout: Layout, settings: OnlineSettings) -> Live:
    """Ask once. A store that is damaged serves nothing; one that cannot be reached is not known to serve anything."""
    where = "the store of lookups"
    try:
        store = open_online(layout, settings, timeout_s=_TIMEOUT_S, retries=_RETRIES)
        where = store.where()
        version = store.serves()
    except CorruptError as error:
        return Live(where=where, trouble=error.what)
    except ProfileAssetsError as error:
        return Live(where=where, trouble=f"it cannot be told what lookups serve: {error.what}", is_known=False)
    if version is None:
        return Live(where=where)
    return Live(where=where, day=version.day, published_at=version.published_at)
