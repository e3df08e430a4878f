"""A published day brought to S3, and what its record says of that: done, or pending until it is completed."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

from profile_assets.errors import ProfileAssetsError
from profile_assets.feature_store.bucket import Bucket
from profile_assets.feature_store.publish_online import Seen, still_pending
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import BUCKET, tell


def publish_bucket(
    layout: Layout, seen: Seen, bucket: Bucket, clock: Callable[[], dt.datetime]
) -> tuple[Seen, ProfileAssetsError | None]:
    """Bring the day to S3. Where that fails the record says pending, and the error comes back for later: it holds up
    no other target.
    """
    try:
        where = bucket.put(seen.record, seen.part)
    except ProfileAssetsError as error:
        record = tell(layout, seen.record, BUCKET, "pending", clock())
        told = still_pending(record, "on S3", error)
        told.__cause__ = error
        return dataclasses.replace(seen, record=record), told
    return dataclasses.replace(seen, record=tell(layout, seen.record, BUCKET, "done", clock(), where)), None
