"""Every command of the page is run, in a world where what it is for has happened."""

from __future__ import annotations

import datetime as dt
import re
import shlex
import sys
from pathlib import Path

import pytest

from profile_assets.cli import main
from profile_assets.models.registry import read_pointer
from profile_assets.storage.layout import USER_SHARDS
from profile_assets.storage.published import published_days, read_record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "when-something-breaks.md"
FIRST, DAY = dt.date(2026, 1, 1), dt.date(2026, 1, 5)


def sections() -> dict[str, list[str]]:
    """The commands below each heading, as they are to be typed."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if line.startswith("    profile-assets "):
            found.setdefault(heading, []).append(line.split("#")[0].split("||")[0].strip())
    return found


@pytest.fixture
def type_in(small_world, monkeypatch, capfd):
    """Type a command of the page; its two days are the newest ones here. Gives its exit status and what it said."""
    monkeypatch.chdir(small_world.root)
    monkeypatch.setenv("PROFILE_DATA", str(small_world.root))
    monkeypatch.setenv("PROFILE_CONFIG", str(small_world.profile))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (small_world.root / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (small_world.root / "data").mkdir()
    days = small_world.write_days(5)

    def run(command: str) -> tuple[int, str]:
        moved = command.replace(str(DAY), str(days[-1])).replace(str(FIRST), str(days[-2]))
        monkeypatch.setattr(sys, "argv", shlex.split(moved))
        with pytest.raises(SystemExit) as ended:
            main()
        told = capfd.readouterr()
        return int(ended.value.code or 0), told.out + told.err

    return run


def test_every_link_of_the_page_leads_to_a_heading():
    text = PAGE.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^a-z ]", "", line[3:].lower()).replace(" ", "-") for line in text.splitlines() if line[:3] == "## "
    }
    assert set(re.findall(r"\]\(#([a-z-]+)\)", text)) == headings


def stable(layout) -> str:
    return read_pointer(layout, "stable").bundle_id


def newest_bundle(layout) -> str:
    return max(layout.models.glob("b-*"), key=lambda path: path.stat().st_mtime).name


@pytest.mark.timeout(600)
def test_each_command_does_what_the_page_says(small_world, type_in):
    """One story, in the order of the page's sections where that can be."""
    page, layout, days = sections(), small_world.deployment.layout, small_world.days
    untried = {command for commands in page.values() for command in commands}

    def types(command: str, *, status: int = 0) -> str:
        assert command in untried | tried, command
        found, told = type_in(command)
        assert found == status, told
        untried.discard(command)
        tried.add(command)
        return told

    tried: set[str] = set()
    # nothing is left: the model was saved, the days are scored from their sources
    assert "stale" in types("profile-assets freshness", status=1)
    types("profile-assets backfill 2026-01-01 2026-01-05")
    assert published_days(layout) == days[-2:]
    assert types("profile-assets verify 2026-01-01 2026-01-05").count("right") == 2
    # a file is damaged
    shard = sorted(layout.stage(USER_SHARDS, days[-1]).glob("*.parquet"))[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    assert shard.name in types("profile-assets verify 2026-01-05", status=1)
    types("profile-assets backfill 2026-01-05 2026-01-05 --again")
    assert "right" in types("profile-assets verify 2026-01-05")
    # a gate stops the day, and its data is released
    small_world.write_day(days[-1], rows=90)
    assert "row_count_change" in type_in("profile-assets backfill 2026-01-05 2026-01-05 --again")[1]
    assert "stopped by row_count_change" in types("profile-assets status")
    types('profile-assets release 2026-01-05 --check row_count_change --why "the shops were closed"')
    types("profile-assets backfill 2026-01-05 2026-01-05 --again")
    # a bad day: withdrawn, and back
    types('profile-assets withdraw 2026-01-05 --why "prices in cents"')
    assert published_days(layout) == [days[-2]]
    types("profile-assets withdraw 2026-01-05 --undo")
    types("profile-assets backfill 2026-01-05 2026-01-05")
    assert published_days(layout) == days[-2:]
    # lookups
    assert days[-1].isoformat() in types("profile-assets online versions")
    types("profile-assets online rollback")
    assert "rolled back" in types("profile-assets status")
    types("profile-assets publish 2026-01-05")
    # the disk
    assert "nothing" in types("profile-assets prune --dry-run")
    types("profile-assets prune")
    # a bad model: another one is trained, promoted, and taken back
    small_world.write_training(every=3)
    types("profile-assets train")
    good, other = stable(layout), newest_bundle(layout)
    assert other != good
    assert type_in(f"profile-assets models promote {other} --why better --force")[0] == 0
    assert stable(layout) == other
    assert "promote" in types("profile-assets models history")
    types('profile-assets models rollback --why "it overrates new users"')
    types("profile-assets backfill 2026-01-01 2026-01-05 --again")
    assert stable(layout) == good
    assert {read_record(layout, day).bundle_id for day in days[-2:]} == {good}
    assert untried == set()
