"""Made-up users: seeded, streamed, with labels that the columns explain."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import PermanentError
from profile_assets.storage.parquet import ROW_GROUP_ROWS
from profile_assets.users.day_folders import PART_FILE, day_folder, is_whole_day
from profile_assets.users.generate import CARDINALITIES, LABEL_COLUMN, LABEL_SCHEMA, USERS_SCHEMA, Generated, generate

DAYS = (dt.date(2026, 1, 5), dt.date(2026, 1, 6))
NUM_USERS = ROW_GROUP_ROWS + 1_000


def read(table: Path, day: dt.date) -> pa.Table:
    return pq.ParquetFile(day_folder(table, day) / PART_FILE).read()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    return generate(tmp_path_factory.mktemp("made"), NUM_USERS, DAYS, 7)


def test_every_day_has_all_users_and_their_labels(made: Generated) -> None:
    for day in DAYS:
        users, labels = read(made.users, day), read(made.labels, day)
        assert users.schema == USERS_SCHEMA
        assert labels.schema == LABEL_SCHEMA
        assert users["user_id"].equals(labels["user_id"])
        assert len(pc.unique(users["user_id"])) == NUM_USERS
        assert is_whole_day(made.users, day)
        assert is_whole_day(made.labels, day)


def test_three_percent_of_each_number_are_missing_and_no_text_is(made: Generated) -> None:
    users = read(made.users, DAYS[0])
    for field in USERS_SCHEMA:
        expected = 0.03 * NUM_USERS if pa.types.is_floating(field.type) else 0
        assert users[field.name].null_count == pytest.approx(expected, rel=0.1)


def test_text_columns_stay_within_their_cardinality_and_are_skewed(made: Generated) -> None:
    users = read(made.users, DAYS[0])
    for index, size in enumerate(CARDINALITIES, start=1):
        counts = np.sort(pc.value_counts(users[f"category_{index}"]).field("counts").to_numpy())
        assert size * 0.7 <= len(counts) <= size
        assert counts[-1] > 3 * np.median(counts)


def test_text_stays_from_day_to_day_and_numbers_drift(made: Generated) -> None:
    first, second = (read(made.users, day) for day in DAYS)
    assert first["category_6"].equals(second["category_6"])
    pairs = [(first["number_1"], second["number_1"])]
    both = [np.asarray(column.fill_null(0.0)) for pair in pairs for column in pair]
    assert not np.array_equal(*both)
    assert np.corrcoef(*both)[0, 1] > 0.8


def test_labels_depend_on_numbers_and_text(made: Generated) -> None:
    users, labels = read(made.users, DAYS[0]), read(made.labels, DAYS[0])[LABEL_COLUMN]
    high = pc.mean(labels.filter(pc.greater(users["number_1"], 1.0))).as_py()
    low = pc.mean(labels.filter(pc.less(users["number_1"], -1.0))).as_py()
    assert high > 2 * low
    by_text = pa.table({"text": users["category_1"], "label": labels}).group_by("text").aggregate([("label", "mean")])
    assert pc.max(by_text["label_mean"]).as_py() > 1.3 * pc.min(by_text["label_mean"]).as_py()
    assert 0.05 < pc.mean(labels).as_py() < 0.4


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    made = [generate(tmp_path / name, 3_000, DAYS[:1], 5) for name in ("one", "two")]
    for table in ("users", "labels"):
        one, two = (day_folder(getattr(each, table), DAYS[0]) / PART_FILE for each in made)
        assert one.read_bytes() == two.read_bytes()


def test_another_seed_gives_other_users(tmp_path: Path) -> None:
    one, two = (generate(tmp_path / str(seed), 3_000, DAYS[:1], seed) for seed in (1, 2))
    assert not read(one.users, DAYS[0])["number_1"].equals(read(two.users, DAYS[0])["number_1"])


def test_a_smaller_run_leaves_nothing_old_and_no_other_day_is_touched(tmp_path: Path) -> None:
    made = generate(tmp_path, 2_000, DAYS)
    other = (day_folder(made.users, DAYS[1]) / PART_FILE).stat()
    generate(tmp_path, 0, DAYS[:1])
    assert read(made.users, DAYS[0]).num_rows == 0
    assert (day_folder(made.users, DAYS[1]) / PART_FILE).stat() == other
    assert {path.name for path in (tmp_path / "generated").iterdir()} == {"users", "labels", "generate.lock"}


def test_progress_adds_up_to_the_rows(tmp_path: Path) -> None:
    told: list[int] = []
    generate(tmp_path, NUM_USERS, DAYS[:1], progress=told.append)
    assert told == [ROW_GROUP_ROWS, 1_000]


@pytest.mark.parametrize(("num_users", "seed"), [(-1, 0), (1, -1)])
def test_negative_numbers_are_refused(tmp_path: Path, num_users: int, seed: int) -> None:
    with pytest.raises(PermanentError, match="not negative"):
        generate(tmp_path, num_users, DAYS, seed)
