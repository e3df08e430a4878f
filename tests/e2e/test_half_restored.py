"""A folder of which parts were deleted or put back from an older copy: what the commands say, and what mends it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from profile_assets.cli import main
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.quality.standing import standing
from profile_assets.storage.layout import USER_SCORES
from profile_assets.storage.published import read_record
from profile_assets.storage.verdicts import read_verdict

ROOT = Path(__file__).parents[2]


@pytest.fixture
def type_in(small_world, monkeypatch, capfd):
    """Type a command; FIRST and LAST are the two days of this world. Gives its exit status and what it said."""
    monkeypatch.chdir(small_world.root)
    monkeypatch.setenv("PROFILE_DATA", str(small_world.root))
    monkeypatch.setenv("PROFILE_CONFIG", str(small_world.profile))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (small_world.root / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (small_world.root / "data").mkdir()
    days = small_world.write_days(2)

    def run(command: str) -> tuple[int, str]:
        dated = command.replace("FIRST", str(days[0])).replace("LAST", str(days[1]))
        monkeypatch.setattr(sys, "argv", shlex.split(f"profile-assets {dated}"))
        with pytest.raises(SystemExit) as ended:
            main()
        told = capfd.readouterr()
        return int(ended.value.code or 0), told.out + told.err

    return run


@pytest.mark.timeout(600)
def test_what_was_lost_is_told_and_a_plain_backfill_mends_it(small_world, type_in):
    layout, (first, last) = small_world.deployment.layout, small_world.days
    both = "backfill FIRST LAST"
    assert type_in(both)[0] == 0
    assert "published already" in type_in(both)[1]
    # the lookups
    shutil.rmtree(layout.online)
    for command in ("freshness", "status"):
        assert "nothing is live in" in type_in(command)[1]
    status, told = type_in(both)
    assert (status, SqliteStore(layout).serves().day) == (0, last), told
    # a verdict
    layout.verdict(first).unlink()
    assert "never judged" in type_in("status")[1]
    assert type_in(both)[0] == 0
    assert read_verdict(layout, first) is not None
    assert standing(layout).days == (first, last)
    # the publish records
    before = layout.offline_part(first).stat().st_mtime_ns
    shutil.rmtree(layout.publish_record(first).parent)
    assert "profile-assets publish" in type_in("status")[1]
    assert "has no publish record" in type_in("verify FIRST")[1]
    assert type_in(both)[0] == 0
    assert {read_record(layout, day).targets["online"].state for day in (first, last)} == {"older", "done"}
    assert layout.offline_part(first).stat().st_mtime_ns == before
    # the manifest of the scores
    layout.manifest(USER_SCORES, first).unlink()
    status, told = type_in("verify FIRST")
    assert (status, "pruned: " in told, "missing: user_scores" in told) == (1, False, True)
    assert f"`profile-assets backfill {first} {first} --again`" in told
    assert "gone: user_scores" in type_in("status")[1]
    assert type_in("backfill FIRST FIRST --again")[0] == 0
    assert type_in("verify FIRST LAST")[0] == 0
    # a later run that a check stops
    small_world.write_day(last, rows=90)
    assert "row_count_change" in type_in("backfill LAST LAST --again")[1]
    status, told = type_in("verify LAST")
    assert (status, "a later run was stopped by row_count_change" in told) == (0, True), told
    assert "a later run was stopped by row_count_change; what is published stands" in type_in("status")[1]
    assert standing(layout).days == (first, last)
    # the table: the store still answers
    shutil.rmtree(layout.offline)
    assert '"day": "' in type_in("lookup 7")[1]
