"""What is typed for a plan, and what is printed of it."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from profile_assets.calibration import measured_rate
from profile_assets.capacity import Night, Service, carried_at
from profile_assets.commands.plan import Rate, find_rate, parse_duration, print_carried, report
from profile_assets.errors import DataError, PermanentError
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage import atomic
from profile_assets.storage.layout import USER_SCORES, Layout, shard_file
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN, commit, describe, seal

DAY = dt.date(2026, 1, 5)
NIGHT = Night(users=10_000_000, deadline_s=7_200, users_per_s=500, price_per_hour=3.6)


def printed(night: Night = NIGHT, peak_per_s: float | None = 2_000) -> str:
    out = io.StringIO()
    rate = Rate(users_per_s=night.users_per_s, source="as given")
    report(night, rate, service=Service(), peak_per_s=peak_per_s, console=Console(file=out, width=120))
    return out.getvalue()


def scored_day(layout: Layout, users: int, seconds: float) -> None:
    folder = atomic.empty_folder(layout.staging(USER_SCORES, DAY))
    schema = pa.schema([(ID_COLUMN, pa.string())])
    with ParquetSink(folder / shard_file(0, 1), schema) as sink:
        sink.write(pa.table({ID_COLUMN: [f"u{index}" for index in range(users)]}, schema=schema))
    entry = describe(folder / shard_file(0, 1), seconds=seconds)
    commit(layout, DAY, seal(layout, DAY, Manifest(stage=USER_SCORES, day=str(DAY), files=(entry,), made_from={})))


@pytest.mark.parametrize(
    ("text", "seconds"), [("2h", 7_200), ("90m", 5_400), ("1h30m", 5_400), ("45s", 45), ("0.5h", 1_800), ("1d", 86_400)]
)
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "2 hours", "h", "-1h", "1h30"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(PermanentError, match="1h30m"):
        parse_duration(text)


def test_the_plan_states_the_closed_form_with_its_numbers() -> None:
    assert "time = users / (rate x devices) = 10,000,000 / (500 x 3) = 1.85 h" in printed()


def test_the_plan_shows_the_batches_and_names_the_unstable_ones() -> None:
    text = printed()
    assert "129.2" in text
    assert "52.4" in text
    assert text.count("unstable") == 3


def test_the_plan_says_which_peak_it_assumed() -> None:
    assert "busiest hour" in printed(peak_per_s=None)
    assert "busiest hour" not in printed(peak_per_s=10)


def test_a_given_rate_is_taken_without_measuring() -> None:
    assert find_rate(given=123.0) == Rate(users_per_s=123.0, source="as given")


def test_a_scored_day_gives_the_rate_of_one_process(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path, name="p")
    scored_day(layout, users=100, seconds=2.0)
    assert find_rate(given=None, layout=layout, day=DAY).users_per_s == 50.0


def test_the_rate_of_this_machine_is_that_of_the_real_scorer() -> None:
    assert measured_rate(ScoringSettings(device="cpu"), users=2_000) > 0


def test_a_day_without_timings_gives_no_rate(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path, name="p")
    scored_day(layout, users=100, seconds=0.0)
    with pytest.raises(DataError, match="2026-01-05"):
        find_rate(given=None, layout=layout, day=DAY)


def test_the_plan_says_when_carrying_pays() -> None:
    assert "it pays while fewer than" in printed()
    out = io.StringIO()
    print_carried(Console(file=out, width=200), carried_at(10_000_000))
    assert "it never pays" in out.getvalue()
