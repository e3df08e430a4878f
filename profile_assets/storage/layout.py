"""Every path that is written, built in this one place.

A profile owns one folder under the root; a stage owns one folder a day in it. Work in progress lies under
`_staging/`, and nothing else is ever swept.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

RAW_USERS = "raw_users"
USER_SHARDS = "user_shards"
USER_SCORES = "user_scores"
EXPORT = "feature_store_export"
STAGES = (RAW_USERS, USER_SHARDS, USER_SCORES, EXPORT)
ROWS = (RAW_USERS, USER_SHARDS, USER_SCORES)
"""The stages that lie in folders of their own, with a manifest."""
RECONCILE = "reconcile"  # the scores of a published day, made in full once more; no stage of the day

SHADOW = "shadow_scores"  # those of the bundle that is tried beside the published ones; no stage of the day

USERS_FILE = "users.parquet"
QUARANTINE_FILE = "rows.parquet"
MANIFEST_FILE = "manifest.json"
MARK_FILE = "pruned.json"
SEAL_FILE = "bundle.json"  # of a bundle; written last
PART_FILE = "part-00000.parquet"


def shard_file(index: int, count: int) -> str:
    """`shard-03-of-16.parquet`; zero-padded so that names sort by number."""
    width = max(2, len(str(count - 1)))
    return f"shard-{index:0{width}d}-of-{count:0{width}d}.parquet"


def day_of(folder: str) -> dt.date | None:
    """The day of a folder, such as `day=2026-01-05`; None for a name that is no day, such as `ds=2026-13-99`.

    Somebody may have put a folder or a copy beside ours: that must stop nobody who looks for days.
    """
    try:
        return dt.date.fromisoformat(folder.partition("=")[2])
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The paths of one profile. `root` is PROFILE_DATA, `name` the profile's name."""

    root: Path
    name: str

    @property
    def home(self) -> Path:
        return self.root / self.name

    def stage(self, stage: str, day: dt.date) -> Path:
        """The committed folder of a stage's day."""
        return self.home / stage / f"day={day.isoformat()}"

    def manifest(self, stage: str, day: dt.date) -> Path:
        return self.stage(stage, day) / MANIFEST_FILE

    def quarantine(self, day: dt.date) -> Path:
        """The committed folder of the rows set aside on a day."""
        return self.home / "quarantine" / f"day={day.isoformat()}"

    def verdict(self, day: dt.date) -> Path:
        return self.home / "verdicts" / f"day={day.isoformat()}.json"

    def measures(self, stage: str, day: dt.date) -> Path:
        """What was measured of a stage's columns, a row for each file and column."""
        return self.home / "measures" / f"day={day.isoformat()}" / f"{stage}.parquet"

    @property
    def reconciliations(self) -> Path:
        return self.home / RECONCILE

    def reconciliation(self, day: dt.date) -> Path:
        """What the comparison of a published day with its scores in full came to."""
        return self.reconciliations / f"{day.isoformat()}.json"

    def shadow_report(self, day: dt.date) -> Path:
        """What the comparison of a published day with its shadow came to."""
        return self.home / SHADOW / f"{day.isoformat()}.json"

    @property
    def offline(self) -> Path:
        """The table that readers open: hive-partitioned by `ds`."""
        return self.home / "feature_store" / "offline"

    def offline_part(self, day: dt.date) -> Path:
        return self.offline / f"ds={day.isoformat()}" / PART_FILE

    @property
    def online(self) -> Path:
        """The embedded store of single lookups: its versions, and the pointer to the one that is live."""
        return self.home / "feature_store" / "online"

    @property
    def publish_records(self) -> Path:
        return self.home / "feature_store" / "publish"

    def publish_record(self, day: dt.date) -> Path:
        return self.publish_records / f"{day.isoformat()}.json"

    @property
    def withdrawals(self) -> Path:
        return self.home / "feature_store" / "withdrawn"

    def withdrawal(self, day: dt.date) -> Path:
        """That a published day was taken back."""
        return self.withdrawals / f"{day.isoformat()}.json"

    @property
    def alerts(self) -> Path:
        """What is remembered of alerts: open episodes, letters that wait, the heartbeat."""
        return self.home / "alerts"

    @property
    def metrics(self) -> Path:
        """The numbers that Prometheus reads."""
        return self.home / "metrics" / f"{self.name}.prom"

    @property
    def models(self) -> Path:
        return self.home / "models"

    def bundle(self, bundle_id: str) -> Path:
        return self.models / bundle_id

    def pointer(self, name: str) -> Path:
        """A registry pointer: stable, canary, shadow, previous."""
        return self.models / f"{name}.json"

    @property
    def registry_log(self) -> Path:
        """Every move of a pointer, a line each, appended and never changed."""
        return self.models / "log.jsonl"

    @property
    def staging_root(self) -> Path:
        return self.home / "_staging"

    def staging(self, what: str, day: dt.date) -> Path:
        """Where the day's one writer (the holder of its lock) builds a stage."""
        return self.staging_root / what / f"day={day.isoformat()}"

    def scratch(self, what: str) -> Path:
        """Where things that belong to no day are built."""
        return self.staging_root / what

    def day_lock(self, stage: str, day: dt.date) -> Path:
        return self.home / "_locks" / f"{stage}-{day.isoformat()}.lock"

    def shared_lock(self, what: str) -> Path:
        """The lock of what days share: the registry, the online pointer."""
        return self.home / "_locks" / f"{what}.lock"
