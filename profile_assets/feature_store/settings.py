"""What a profile says of its export: the table's format, what rides along, and where single users are looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """Where lookups go. `url_env` names the environment variable with the server's address, which may be a secret.

    A value counts as expired `expires_hours` after the end of its day. A version that another one replaced is kept
    `keep_hours` longer, for a rollback. `rows_per_s` bounds the load; None is no bound.
    """

    store: Literal["sqlite", "redis"] = "sqlite"
    url_env: str = "PROFILE_REDIS_URL"
    expires_hours: float = 72.0
    keep_hours: float = 72.0
    rows_per_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class BucketSettings:
    """Where the table lies once more: `url` is s3://bucket/prefix; `endpoint` a server other than AWS's."""

    url: str
    endpoint: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """`columns` are landed columns that readers find beside the score. Without `online` there are no lookups, without
    `bucket` no table on S3.
    """

    offline: Literal["parquet", "delta"] = "parquet"
    columns: tuple[str, ...] = ()
    online: OnlineSettings | None = None
    bucket: BucketSettings | None = None
