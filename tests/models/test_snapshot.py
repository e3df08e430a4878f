from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import DataError
from profile_assets.models.snapshot import join_labels, record_of
from profile_assets.storage.keys import KeySet, key_set_of

DAY = dt.date(2026, 1, 5)


@pytest.fixture
def people() -> pa.Table:
    return pa.table({"user_id": ["007", "a", "b", "7"], "age": [1.0, 2.0, None, 4.0]})


def labels(ids: list[str | None], values: list[float | None]) -> pa.Table:
    return pa.table({"user_id": pa.array(ids, pa.string()), "label": pa.array(values, pa.float32())})


def test_each_user_gets_the_label_of_the_same_id_whatever_the_order(people: pa.Table) -> None:
    joined = join_labels(DAY, people, labels(["b", "7", "zz", "007"], [1, 0, 1, 0]))
    assert joined.to_pydict() == {"user_id": ["007", "b", "7"], "age": [1.0, None, 4.0], "label": [0.0, 1.0, 0.0]}
    assert joined.schema.field("label").type == pa.float32()


def test_users_in_several_chunks_are_joined_as_one(people: pa.Table) -> None:
    chunked = pa.concat_tables([people.slice(0, 1), people.slice(1)])
    table = labels(["a", "007"], [1, 0])
    assert join_labels(DAY, chunked, table).to_pydict() == join_labels(DAY, people, table).to_pydict()


def test_integer_labels_are_taken(people: pa.Table) -> None:
    table = pa.table({"user_id": ["a"], "label": pa.array([1], pa.int8())})
    assert join_labels(DAY, people, table)["label"].to_pylist() == [1.0]


@pytest.mark.parametrize("value", [2.0, -1.0, float("nan"), None])
def test_a_label_that_is_neither_0_nor_1_names_its_user(people: pa.Table, value: float | None) -> None:
    with pytest.raises(DataError, match="label of user 'b' on 2026-01-05 is"):
        join_labels(DAY, people, labels(["a", "b"], [1.0, value]))


@pytest.mark.parametrize("ids", [["a", "a"], ["a", None]])
def test_two_labels_of_one_user_or_a_label_of_nobody_are_refused(people: pa.Table, ids: list[str | None]) -> None:
    with pytest.raises(DataError, match="some user has none or two"):
        join_labels(DAY, people, labels(ids, [1.0, 1.0]))


@pytest.mark.parametrize("ids", [["x"], []])
def test_labels_of_nobody_here_are_refused(people: pa.Table, ids: list[str | None]) -> None:
    with pytest.raises(DataError, match="none of the 4 users of 2026-01-05 has a label"):
        join_labels(DAY, people, labels(ids, [1.0] * len(ids)))


def test_the_record_tells_rows_positives_and_keys_of_each_day(people: pa.Table) -> None:
    joined = join_labels(DAY, people, labels(["a", "b"], [1, 0]))
    (entry,) = record_of({DAY: joined}, lambda _: "training")["days"]
    assert (entry["day"], entry["rows"], entry["positives"]) == ("2026-01-05", 2, 1)
    assert KeySet.from_json(entry["keys"]) == key_set_of(pa.array(["a", "b"]))
