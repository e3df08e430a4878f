"""Columns by exact name and declared type; all that is wrong told in one error, with what was probably meant."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from profile_assets.errors import ContractError
from profile_assets.users.contract import Column
from profile_assets.users.land import commit_landing


def test_columns_are_found_by_name_whatever_their_order(bench, contract) -> None:
    bench.parquet({"uid": ["a"], "x": [1], "y": [2]}, "a.parquet")
    bench.parquet({"y": [4], "x": [3], "uid": ["b"]}, "b.parquet")
    assert bench.land(contract(x="int64", y="int64")).users.to_pylist() == [
        {"user_id": "a", "x": 1, "y": 2},
        {"user_id": "b", "x": 3, "y": 4},
    ]


def test_everything_that_is_wrong_is_told_in_one_error(bench, contract) -> None:
    bench.parquet({"uid": [1.5], "Age": [3], "spent": ["12"], "plam": ["a"]}, "a.parquet")
    bench.parquet({"id": ["a"], "age": [3], "AGE": [3], "spent": [1.0], "plan": ["a"]}, "b.parquet")
    with pytest.raises(ContractError) as error:
        bench.land(contract(age="int32", spent="float64", plan="string"))
    told = str(error.value)
    assert "id column 'uid': ids are double" in told
    assert "column 'age' (int32) is missing; did you mean 'Age'?" in told
    assert "column 'plan' (string) is missing; did you mean 'plam'?" in told
    assert "column 'spent' is string, and the contract says float64" in told
    assert "column 'uid' (the id) is missing; did you mean 'id'?" in told
    assert "column 'age' has a twin that differs by case only: 'AGE'" in told
    assert "a.parquet" in told
    assert "b.parquet" in told


def test_a_problem_of_many_files_is_told_once(bench, contract) -> None:
    for number in range(5):
        bench.parquet({"uid": ["a"]}, f"{number}.parquet")
    with pytest.raises(ContractError, match="and 2 more") as error:
        bench.land(contract(age="int32"))
    assert str(error.value).count("'age'") == 1


def test_a_column_that_stands_there_twice_is_refused(bench, contract) -> None:
    bench.parquet(pa.table([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["uid", "x", "x"]))
    with pytest.raises(ContractError, match="column 'x' stands there 2 times"):
        bench.land(contract(x="int64"))


def test_an_extra_column_is_not_read_and_noted(bench, contract) -> None:
    bench.parquet({"uid": ["a"], "x": [1], "secret": ["s"]})
    landed = bench.land(contract(x="int64"))
    assert landed.users.schema.names == ["user_id", "x"]
    assert landed.facts["extra_columns"] == ["secret"]


def test_a_column_that_is_not_required_lands_as_nulls_where_it_is_absent(bench, contract) -> None:
    optional = Column(name="x", type=pa.int16(), required=False)
    bench.parquet({"uid": ["a"]}, "a.parquet")
    bench.parquet({"uid": ["b"], "x": [7]}, "b.parquet")
    landed = bench.land(contract(x=optional))
    assert (landed.column("x"), landed.facts["absent_columns"]) == ([None, 7], ["x"])


def test_a_column_that_is_not_required_but_differs_by_case_is_not_lost(bench, contract) -> None:
    bench.parquet({"uid": ["a"], "X": [1]})
    with pytest.raises(ContractError, match="did you mean 'X'"):
        bench.land(contract(x=Column(name="x", type=pa.int16(), required=False)))


def test_a_column_all_null_in_one_file_and_text_in_another(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b"], "plan": pa.nulls(2)}, "a.parquet")
    bench.parquet({"uid": ["c"], "plan": ["gold"]}, "b.parquet")
    assert bench.land(contract(plan="string")).column("plan") == [None, None, "gold"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_lands_as_plain_text_from_every_encoding(bench, contract, kind) -> None:
    bench.parquet({"uid": ["a", "b", "c"], "plan": pa.array(["x", None, "y"]).cast(kind)})
    landed = bench.land(contract(plan="string"))
    assert landed.users.schema.field("plan").type == pa.string()
    assert landed.column("plan") == ["x", None, "y"]


CHANGED = [
    ("int32", pa.array([1.0])),
    ("int32", pa.array(["1"])),
    ("int32", pa.array([True])),
    ("string", pa.array([1.0])),
    ("string", pa.array([b"x"])),
    ("float64", pa.array(["1"])),
    ("float32", pa.array([True])),
    ("bool", pa.array([1])),
    ("bool", pa.array(["true"])),
    ("date", pa.array(["2026-01-05"])),
    ("date", pa.array([0], pa.timestamp("us"))),
    ("timestamp", pa.array([1])),
    ("decimal(12,2)", pa.array([1.5])),
    ("list<float32>", pa.array(["[1]"])),
    ("list<float32>", pa.array([["a"]])),
]


@pytest.mark.parametrize(("declared", "values"), CHANGED)
def test_a_column_of_another_type_is_refused(bench, contract, declared, values) -> None:
    bench.parquet({"uid": ["a"], "x": values})
    with pytest.raises(ContractError, match=r"column 'x' is .*, and the contract says"):
        bench.land(contract(x=declared))


KIN = [
    ("int64", pa.array([1], pa.uint8()), 1),
    ("int8", pa.array([1], pa.int64()), 1),
    ("string", pa.array([7], pa.int64()), "7"),
    ("float64", pa.array([1.5], pa.float32()), 1.5),
    ("float32", pa.array([3], pa.int64()), 3.0),
    ("float64", pa.array([Decimal("1.25")]), 1.25),
    ("decimal(12,2)", pa.array([Decimal("1.2500")]), Decimal("1.25")),
    ("decimal(12,2)", pa.array([3], pa.int64()), Decimal("3.00")),
    ("date", pa.array([dt.date(2026, 1, 5)], pa.date64()), dt.date(2026, 1, 5)),
    ("list<float32>", pa.array([[1.0, 2.0]], pa.large_list(pa.float64())), [1.0, 2.0]),
    ("list<float32,2>", pa.array([[1, 2]], pa.list_(pa.int32())), [1.0, 2.0]),
    ("list<float32>", pa.array([[1, 2]], pa.list_(pa.float32(), 2)), [1.0, 2.0]),
]


@pytest.mark.parametrize(("declared", "values", "landed"), KIN)
def test_a_column_in_another_dress_of_its_type_lands(bench, contract, declared, values, landed) -> None:
    bench.parquet({"uid": ["a"], "x": values})
    assert bench.land(contract(x=declared)).column("x") == [landed]


def test_a_csv_has_no_lists(bench, contract) -> None:
    bench.write("a.csv", "uid,x\na,1\n")
    with pytest.raises(ContractError, match="list<float32>"):
        bench.land(contract(x="list<float32>"), "csv")


def test_json_values_that_are_all_of_another_type_are_refused(bench, contract) -> None:
    bench.write("a.ndjson", '{"uid": "a", "x": "1", "y": 1}\n{"uid": "b", "x": "2", "y": 2}\n')
    with pytest.raises(ContractError, match=r"column 'x' is string.*column 'y' is int64"):
        bench.land(contract(x="int64", y="bool"), "ndjson")


def test_the_error_says_what_changed_since_the_last_day_that_landed(bench, contract) -> None:
    declared = contract(age="int32", plan="string")
    days = [dt.date(2026, 1, day) for day in (3, 4, 5)]
    bench.parquet({"uid": ["a"], "age": [1], "plan": ["x"], "old": [1]}, day=days[0])
    commit_landing(bench.layout, days[0], bench.land(declared, day=days[0]).staged)
    bench.parquet({"uid": ["a"], "age": [1], "plan": pa.array(["x"]).dictionary_encode(), "city": ["x"]}, day=days[1])
    commit_landing(bench.layout, days[1], bench.land(declared, day=days[1]).staged)
    bench.parquet({"uid": ["a"], "age": ["1"], "plan": pa.nulls(1), "town": ["x"]}, day=days[2])
    with pytest.raises(ContractError) as error:
        bench.land(declared, day=days[2])
    assert (
        "; since 2026-01-04, the last day that landed: 'city' (string) is gone, 'town' (string) is new, "
        "'age' was int64 and is string ->" in str(error.value)
    )


def test_on_the_first_day_nothing_is_said_of_days_before(bench, contract) -> None:
    later = dt.date(2026, 1, 6)
    bench.parquet({"uid": ["a"], "age": [1]}, day=later)
    commit_landing(bench.layout, later, bench.land(contract(age="int32"), day=later).staged)
    bench.parquet({"uid": ["a"]})
    with pytest.raises(ContractError) as error:
        bench.land(contract(age="int32"))
    assert "since" not in str(error.value)


def test_a_record_that_cannot_be_read_hides_neither_the_error_nor_an_older_day(bench, contract) -> None:
    declared = contract(age="int32")
    for day in (dt.date(2026, 1, 3), dt.date(2026, 1, 4)):
        bench.parquet({"uid": ["a"], "age": [1]}, day=day)
        commit_landing(bench.layout, day, bench.land(declared, day=day).staged)
    bench.layout.manifest("raw_users", dt.date(2026, 1, 4)).write_text("{")
    bench.parquet({"uid": ["a"], "age": ["1"]})
    with pytest.raises(ContractError, match=r"since 2026-01-03.*'age' was int64 and is string"):
        bench.land(declared)
