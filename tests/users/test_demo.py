"""The demo's tables: nothing from later days, exact values, days that arrive, runs that die midway."""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing
import os
import shutil
import signal
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_assets.errors import CorruptError, DataError, SourceError
from profile_assets.users import demo
from profile_assets.users.day_folders import PART_FILE, SUCCESS_FILE, day_folder
from profile_assets.users.demo_calendar import Calendar, choose_shift, load_calendar
from profile_assets.users.demo_purchases import (
    LABEL_COLUMN,
    LABEL_SCHEMA,
    PROFILE_SCHEMA,
    Purchases,
    find_purchases_file,
    label_table,
    profile_table,
    read_purchases,
)

TODAY = dt.date(2026, 1, 6)
DAY = dt.timedelta(days=1)
HEADER = "customer_id date number_of_cds dollar_value\n"
SMALL = (
    HEADER
    + """ 00001 19970101  1   11.77
 00002 19970112  1   12.00
 00002 19970112  5   77.00
 00003 19970102  2   20.76
 00003 19970330  2   20.00
 00003 19970402  3   19.54
"""
)


@pytest.fixture(scope="module")
def purchases() -> Purchases:
    return read_purchases()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> demo.DemoReport:
    return demo.prepare(tmp_path_factory.mktemp("prepared"), TODAY)


@pytest.fixture
def root(tmp_path: Path, prepared: demo.DemoReport) -> Path:
    """A root of its own for one test, as the first run left it."""
    shutil.copytree(prepared.users.parent, tmp_path / "demo")
    return tmp_path


def small(tmp_path: Path, text: str = SMALL) -> Purchases:
    path = tmp_path / "purchases.txt"
    path.write_text(text)
    return read_purchases(path)


def files_below(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}


def row_of(table: pa.Table, user_id: str) -> dict[str, object]:
    (row,) = table.filter(pc.field("user_id") == user_id).to_pylist()
    return row


def test_the_file_holds_the_known_customers_and_purchases(purchases: Purchases) -> None:
    assert len(purchases.customer) == 69_659
    assert len(np.unique(purchases.customer)) == 23_570
    assert str(purchases.day.min()) == "1997-01-01"
    assert str(purchases.day.max()) == "1998-06-30"
    assert purchases.cents.sum() == 250_031_563


@settings(max_examples=8, deadline=None)
@given(offset=st.integers(0, 545))
def test_a_file_cut_at_the_day_gives_the_same_profiles(offset: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    day = dt.date(1997, 1, 1) + offset * DAY
    lines = find_purchases_file().read_text().splitlines(keepends=True)
    past = [line for line in lines[1:] if line.split()[1] <= day.strftime("%Y%m%d")]
    cut = tmp_path_factory.mktemp("cut") / "purchases.txt"
    cut.write_text(lines[0] + "".join(past))
    table = profile_table(read_purchases(cut), day)
    assert table.num_rows > 0
    assert table.equals(profile_table(read_purchases(), day))


def test_a_day_holds_whoever_has_bought_by_then(purchases: Purchases) -> None:
    assert profile_table(purchases, dt.date(1996, 12, 31)).num_rows == 0
    assert profile_table(purchases, dt.date(1997, 1, 1)).num_rows == len(
        set(purchases.customer[purchases.day == np.datetime64("1997-01-01")])
    )
    assert profile_table(purchases, dt.date(1997, 3, 24)).num_rows < 23_570
    assert profile_table(purchases, dt.date(1997, 3, 25)).num_rows == 23_570


def test_a_profile_counts_what_a_person_would_count(tmp_path: Path) -> None:
    table = profile_table(small(tmp_path), dt.date(1997, 4, 2))
    assert table.schema == PROFILE_SCHEMA
    assert table["user_id"].to_pylist() == ["00001", "00002", "00003"]
    assert row_of(table, "00003") == {
        "user_id": "00003",
        "tenure_days": 90,
        "recency_days": 0,
        "orders": 3,
        "order_days": 3,
        "orders_last_30d": 2,
        "orders_last_90d": 2,
        "orders_last_180d": 3,
        "cds_total": 7,
        "spend_total": Decimal("60.30"),
        "spend_max": Decimal("20.76"),
        "spend_last_90d": Decimal("39.54"),
        "spend_mean": pytest.approx(20.10),
        "days_between_orders": 45.0,
        "first_order_size": "two_cds",
        "last_order_value": "15_to_25",
        "order_pace": "on_time",
    }


def test_two_orders_on_one_day_have_no_days_between_them(tmp_path: Path) -> None:
    row = row_of(profile_table(small(tmp_path), dt.date(1997, 4, 2)), "00002")
    assert row["orders"] == 2
    assert row["days_between_orders"] is None
    assert row["order_pace"] == "single_order"
    assert row["spend_total"] == Decimal("89.00")


def test_only_days_between_orders_is_ever_missing(purchases: Purchases) -> None:
    table = profile_table(purchases, dt.date(1997, 5, 1))
    assert {name for name in table.column_names if table[name].null_count} == {"days_between_orders"}


def test_profiles_do_not_depend_on_the_order_of_the_lines(tmp_path: Path) -> None:
    head, *lines = SMALL.splitlines(keepends=True)
    mixed = small(tmp_path, head + "".join([lines[3], lines[5], lines[1], lines[2], lines[4], lines[0]]))
    day = dt.date(1997, 4, 2)
    assert profile_table(mixed, day).equals(profile_table(small(tmp_path), day))


def test_moving_every_purchase_moves_nothing_in_the_profiles(purchases: Purchases) -> None:
    moved = Purchases(customer=purchases.customer, day=purchases.day + 10_003, cds=purchases.cds, cents=purchases.cents)
    day = dt.date(1997, 9, 30)
    assert profile_table(moved, day + 10_003 * DAY).equals(profile_table(purchases, day))


def test_money_is_exact_and_signed(tmp_path: Path) -> None:
    table = profile_table(small(tmp_path, HEADER + "7 19970101 1 -3.07\n"), dt.date(1997, 1, 1))
    assert row_of(table, "00007")["spend_total"] == Decimal("-3.07")


@pytest.mark.parametrize(
    ("bought_on", "buys"), [("19970131", 0), ("19970201", 1), ("19970302", 1), ("19970303", 0), ("19970130", 0)]
)
def test_a_label_covers_the_thirty_days_after_its_day(tmp_path: Path, bought_on: str, buys: int) -> None:
    text = HEADER + f"1 19970101 1 1.00\n1 {bought_on} 1 1.00\n2 19970215 1 1.00\n"
    table = label_table(small(tmp_path, text), dt.date(1997, 1, 31))
    assert table.schema == LABEL_SCHEMA
    assert table.to_pylist() == [{"user_id": "00001", LABEL_COLUMN: buys}]


def test_labels_beyond_the_file_are_refused(purchases: Purchases) -> None:
    assert label_table(purchases, dt.date(1998, 5, 31)).num_rows == 23_570
    with pytest.raises(DataError, match=r"1998-06-01.*1998-07-01.*1998-05-31"):
        label_table(purchases, dt.date(1998, 6, 1))


def test_recent_buyers_buy_again_more_often(purchases: Purchases) -> None:
    day = dt.date(1997, 12, 31)
    active = pc.greater(profile_table(purchases, day)["orders_last_30d"], 0)
    labels = label_table(purchases, day)[LABEL_COLUMN]
    assert pc.mean(labels.filter(active)).as_py() > 4 * pc.mean(labels.filter(pc.invert(active))).as_py()


def test_without_the_package_the_remedy_says_what_to_install() -> None:
    with pytest.raises(SourceError, match=r"pip install 'profile-assets\[demo\]'"):
        find_purchases_file("no_such_package_here")


def test_a_package_without_the_file_is_named() -> None:
    with pytest.raises(SourceError, match=r"CDNOW_master\.txt is not there.*reinstall"):
        find_purchases_file("profile_assets")


@pytest.mark.parametrize(
    "text", ["", "id date\n1 2\n", HEADER + "1 19970101 1\n", HEADER + "1 19970101 one 2.00\n", HEADER + "1 é 1 1\n"]
)
def test_another_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match=r"purchases\.txt"):
        small(tmp_path, text)


def test_the_last_known_day_is_yesterday_at_the_first_run() -> None:
    calendar = Calendar(shift_days=choose_shift(TODAY))
    assert calendar.shown(dt.date(1998, 3, 31)) == TODAY - DAY
    assert calendar.original(TODAY - DAY) == dt.date(1998, 3, 31)
    assert calendar.last_day == TODAY + 90 * DAY


def test_training_days_end_a_horizon_before_the_selection_day() -> None:
    calendar = Calendar(shift_days=0)
    assert len(calendar.training_days) == 16
    assert calendar.training_days[-1] == dt.date(1997, 8, 14)
    assert calendar.training_days[-1] + 30 * DAY < calendar.selection_day
    assert calendar.selection_day + 30 * DAY < calendar.report_days[0]


@given(days=st.integers(0, 400))
def test_no_day_and_no_label_is_there_before_its_time(days: int) -> None:
    calendar = Calendar(shift_days=choose_shift(TODAY))
    today = TODAY + days * DAY
    assert max(calendar.users_days(today)) == min(today - DAY, calendar.last_day)
    assert max(calendar.label_days(today)) + 30 * DAY < today
    assert max(calendar.label_days(today)) + 30 * DAY <= calendar.last_day
    assert set(calendar.label_days(today)) <= set(calendar.users_days(today))


def test_the_first_run_writes_history_and_the_last_ten_days(prepared: demo.DemoReport) -> None:
    calendar = prepared.calendar
    recent = {TODAY - count * DAY for count in range(1, 11)}
    assert set(prepared.days) == {*calendar.training_days, calendar.selection_day, *calendar.report_days, *recent}
    assert {folder.name for folder in prepared.users.iterdir()} == {f"day={day}" for day in prepared.days}
    assert {folder.name for folder in prepared.labels.iterdir()} == {f"day={day}" for day in prepared.label_days}
    assert set(prepared.label_days) == {*calendar.training_days, calendar.selection_day, *calendar.report_days}
    assert prepared.num_written == 28 + 18
    assert prepared.days_left == 91
    assert not prepared.is_exhausted


def test_what_is_on_disk_is_the_table_of_the_original_day(prepared: demo.DemoReport, purchases: Purchases) -> None:
    day = prepared.calendar.selection_day
    original = prepared.calendar.original(day)
    users = pq.ParquetFile(day_folder(prepared.users, day) / PART_FILE).read()
    labels = pq.ParquetFile(day_folder(prepared.labels, day) / PART_FILE).read()
    assert users.equals(profile_table(purchases, original))
    assert labels.equals(label_table(purchases, original))
    assert users["user_id"].equals(labels["user_id"])


def test_no_work_in_progress_is_left_behind(prepared: demo.DemoReport) -> None:
    assert {path.name for path in prepared.users.parent.iterdir()} == {
        "users",
        "labels",
        "calendar.json",
        "prepare.lock",
    }


def test_a_second_run_touches_nothing(prepared: demo.DemoReport) -> None:
    home = prepared.users.parent
    before = files_below(home)
    again = demo.prepare(home.parent, TODAY)
    assert again.num_written == 0
    assert again.days == prepared.days
    assert files_below(home) == before


def test_days_and_labels_arrive_and_the_calendar_stays(root: Path) -> None:
    first = demo.prepare(root, TODAY)
    before = files_below(first.users / f"day={first.days[0]}")
    steps: list[tuple[int, int]] = []
    later = demo.prepare(root, TODAY + 22 * DAY, lambda done, total: steps.append((done, total)))
    assert later.calendar == first.calendar
    assert set(later.days) - set(first.days) == {TODAY + count * DAY for count in range(22)}
    assert set(later.label_days) - set(first.label_days) == {TODAY - 10 * DAY, TODAY - 9 * DAY}
    assert steps == [(done, 24) for done in range(1, 25)]
    assert later.num_written == 24
    assert files_below(first.users / f"day={first.days[0]}") == before


def test_when_the_purchases_run_out_the_report_says_so(root: Path) -> None:
    last = demo.prepare(root, TODAY)
    assert demo.prepare(root, TODAY).message.endswith("91 more arrive, one a day")
    end = demo.prepare(root, last.calendar.last_day + 2 * DAY)
    assert end.is_exhausted
    assert end.days[-1] == last.calendar.last_day
    assert end.days_left == 0
    assert f"end on {last.calendar.last_day}" in end.message
    assert demo.prepare(root, last.calendar.last_day + 300 * DAY).num_written == 0


def test_only_a_damaged_or_unmarked_day_is_written_again(root: Path) -> None:
    report = demo.prepare(root, TODAY)
    cut, unmarked, kept = (day_folder(report.users, day) for day in report.days[:3])
    whole = (cut / PART_FILE).read_bytes()
    (cut / PART_FILE).write_bytes(whole[:-1])
    (unmarked / SUCCESS_FILE).unlink()
    before = files_below(kept)
    assert demo.prepare(root, TODAY).num_written == 2
    assert (cut / PART_FILE).read_bytes() == whole
    assert (unmarked / SUCCESS_FILE).exists()
    assert files_below(kept) == before


def _die_after(root: Path, folders: int) -> None:
    def progress(done: int, _total: int) -> None:
        if done == folders:
            os.kill(os.getpid(), signal.SIGKILL)

    demo.prepare(root, TODAY, progress)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_die_after, args=(tmp_path, 5))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    done = files_below(tmp_path / "demo" / "users")
    report = demo.prepare(tmp_path, TODAY + 3 * DAY)
    assert report.calendar.shown(dt.date(1998, 3, 31)) == TODAY - DAY
    assert report.num_written == 28 + 3 + 18 - 5
    after = files_below(tmp_path / "demo" / "users")
    assert {path: after[path] for path in done if path.is_file()} == {
        path: state for path, state in done.items() if path.is_file()
    }
    assert not (tmp_path / "demo" / "_staging").exists()


def test_days_without_their_calendar_are_not_mixed_with_another(root: Path) -> None:
    report = demo.prepare(root, TODAY)
    demo.calendar_path(root).unlink()
    with pytest.raises(SourceError, match=r"calendar\.json is gone"):
        demo.prepare(root, TODAY + DAY)
    assert {folder.name for folder in report.users.iterdir()} == {f"day={day}" for day in report.days}


@pytest.mark.parametrize(
    "value",
    ["{", "[]", '{"format": 1}', '{"format": 1, "shift_days": "x", "last_known_day": "1998-03-31"}', '{"format": 2}'],
)
def test_a_damaged_calendar_is_named(tmp_path: Path, value: str) -> None:
    path = tmp_path / "calendar.json"
    path.write_text(value)
    with pytest.raises(CorruptError, match=r"calendar\.json"):
        load_calendar(path)


def test_the_calendar_file_holds_the_agreed_fields(prepared: demo.DemoReport) -> None:
    value = json.loads(demo.calendar_path(prepared.users.parent.parent).read_text())
    assert value == {"format": 1, "shift_days": choose_shift(TODAY), "last_known_day": "1998-03-31"}
    assert load_calendar(demo.calendar_path(prepared.users.parent.parent)) == prepared.calendar
