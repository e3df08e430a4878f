"""Labels: known once their horizon is over; one finite number a user, or the day is named."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.errors import ContractError, DataError, SourceError
from profile_assets.users.labels import LABEL_SCHEMA, LabelSettings, is_known, read_labels

DAY = dt.date(2026, 1, 5)


@pytest.fixture
def labels(bench):
    def settings(file_format: str = "parquet") -> LabelSettings:
        return LabelSettings(
            path=str(bench.root / "source"), format=file_format, key="uid", column="buys", horizon_days=30
        )

    return settings


@given(st.dates(max_value=dt.date(9000, 1, 1)), st.integers(0, 400))
def test_labels_are_known_the_day_after_their_horizon(day: dt.date, horizon: int) -> None:
    last = day + dt.timedelta(days=horizon)
    assert not is_known(day, horizon, last)
    assert is_known(day, horizon, last + dt.timedelta(days=1))


@pytest.mark.parametrize("values", [[True, False], [1, 0], [1.0, 0.0]])
def test_booleans_and_numbers_are_labels(bench, labels, values) -> None:
    bench.parquet({"uid": [7, 8], "buys": values})
    table = read_labels(labels(), DAY)
    assert table.schema == LABEL_SCHEMA
    assert table.to_pylist() == [{"user_id": "7", "label": 1.0}, {"user_id": "8", "label": 0.0}]


@pytest.mark.parametrize(
    ("file_format", "text"), [("csv", "uid,buys\na,1\n"), ("ndjson", '{"uid": "a", "buys": true}\n')]
)
def test_labels_come_in_every_format(bench, labels, file_format, text) -> None:
    bench.write(f"a.{file_format}", text)
    assert read_labels(labels(file_format), DAY).to_pylist() == [{"user_id": "a", "label": 1.0}]


def test_the_ids_match_those_of_the_users(bench, labels, contract) -> None:
    bench.parquet({"uid": pa.array([2**63 - 1]), "buys": [1]})
    assert read_labels(labels(), DAY).column("user_id").to_pylist() == bench.land(contract(buys="int8")).ids


@pytest.mark.parametrize(
    ("uid", "buys", "reason"),
    [
        (["a", None], [1.0, 1.0], "row 2 .* uid: null"),
        (["a", "b"], [1.0, None], "row 2 .* no label"),
        (["a", "b"], [1.0, float("nan")], "row 2 .* no label"),
        (["a", "b"], [float("inf"), 1.0], "row 1 .* buys: infinite"),
    ],
)
def test_a_row_that_is_no_label_fails_its_day_by_name(bench, labels, uid, buys, reason) -> None:
    bench.parquet({"uid": uid, "buys": buys})
    with pytest.raises(DataError, match=reason):
        read_labels(labels(), DAY)


def test_a_broken_line_fails_its_day_by_name(bench, labels) -> None:
    bench.write("a.csv", "uid,buys\na,1\nb\n")
    with pytest.raises(DataError, match="row 2"):
        read_labels(labels("csv"), DAY)


def test_a_user_with_two_labels_fails_the_day_by_name(bench, labels) -> None:
    bench.parquet({"uid": ["a", "b"], "buys": [1, 0]}, "a.parquet")
    bench.parquet({"uid": ["b"], "buys": [0]}, "b.parquet")
    with pytest.raises(DataError, match=r"user 'b' more than once \(1 rows"):
        read_labels(labels(), DAY)


def test_no_labels_and_other_columns_are_refused(bench, labels) -> None:
    with pytest.raises(SourceError, match="2026-01-05"):
        read_labels(labels(), DAY)
    bench.parquet({"uid": ["a"], "buy": [1]})
    with pytest.raises(ContractError, match="did you mean 'buy'"):
        read_labels(labels(), DAY)


def test_a_day_without_rows_has_no_labels(bench, labels) -> None:
    bench.parquet({"uid": pa.array([], pa.string()), "buys": pa.array([], pa.int8())})
    assert read_labels(labels(), DAY).num_rows == 0
