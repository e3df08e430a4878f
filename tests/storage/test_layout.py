"""Where things lie is a promise to readers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from profile_assets.storage.layout import RAW_USERS, USER_SCORES, Layout, shard_file

LAYOUT = Layout(root=Path("data"), name="purchase_30d")
DAY = dt.date(2026, 1, 5)


def test_paths_are_as_promised() -> None:
    found = {
        str(path.relative_to("data/purchase_30d"))
        for path in (
            LAYOUT.stage(RAW_USERS, DAY),
            LAYOUT.manifest(USER_SCORES, DAY),
            LAYOUT.quarantine(DAY),
            LAYOUT.verdict(DAY),
            LAYOUT.offline_part(DAY),
            LAYOUT.publish_record(DAY),
            LAYOUT.bundle("b-0123456789abcdef"),
            LAYOUT.pointer("stable"),
        )
    }
    assert found == {
        "raw_users/day=2026-01-05",
        "user_scores/day=2026-01-05/manifest.json",
        "quarantine/day=2026-01-05",
        "verdicts/day=2026-01-05.json",
        "feature_store/offline/ds=2026-01-05/part-00000.parquet",
        "feature_store/publish/2026-01-05.json",
        "models/b-0123456789abcdef",
        "models/stable.json",
    }


def test_shards_sort_by_number() -> None:
    assert shard_file(3, 16) == "shard-03-of-16.parquet"
    assert shard_file(0, 1) == "shard-00-of-01.parquet"
    for count in (1, 10, 11, 100, 101, 1000):
        names = [shard_file(index, count) for index in range(count)]
        assert names == sorted(names)
        assert len(set(names)) == count


def test_work_in_progress_lies_outside_every_table() -> None:
    for path in (LAYOUT.staging(RAW_USERS, DAY), LAYOUT.scratch("records")):
        assert path.is_relative_to(LAYOUT.staging_root)
        assert not path.is_relative_to(LAYOUT.offline)


def test_two_profiles_and_two_days_share_no_path() -> None:
    other = Layout(root=Path("data"), name="churn")
    assert not LAYOUT.home.is_relative_to(other.home)
    assert LAYOUT.day_lock(RAW_USERS, DAY) != LAYOUT.day_lock(RAW_USERS, DAY + dt.timedelta(days=1))
