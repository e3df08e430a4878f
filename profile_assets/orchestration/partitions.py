"""One partition is one calendar day in the profile's zone; the last one is yesterday."""

from __future__ import annotations

import dagster as dg

from profile_assets.profile import Profile


def daily_partitions(profile: Profile) -> dg.DailyPartitionsDefinition:
    """The days of a profile, from its start day on."""
    return dg.DailyPartitionsDefinition(start_date=profile.start_day.isoformat(), timezone=profile.time_zone)
