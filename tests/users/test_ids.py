"""Ids: the same text for the same user, whatever dress the column comes in; never through a float."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import ContractError
from profile_assets.users import batches
from profile_assets.users.ids import cast_id
from profile_assets.users.source import CsvSettings

NEXT = dt.date(2026, 1, 6)
LARGE = 2**63 - 1


def test_the_largest_id_is_the_same_text_on_a_day_with_a_null(bench, contract) -> None:
    bench.parquet({"uid": pa.array([LARGE], pa.int64())})
    bench.parquet({"uid": pa.array([LARGE, None], pa.int64())}, day=NEXT)
    first, second = bench.land(contract()), bench.land(contract(), day=NEXT)
    assert first.ids == second.ids == ["9223372036854775807"]
    assert [row["reason"] for row in second.quarantine] == ["uid: null"]


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_the_largest_ids_are_exact_in_text_formats(bench, contract, file_format) -> None:
    ids = [LARGE, 2**53, 2**53 + 1, 2**64 - 1]
    lines = ["uid", *map(str, ids)] if file_format == "csv" else [json.dumps({"uid": one}) for one in ids]
    bench.write(f"a.{file_format}", "\n".join(lines) + "\n")
    assert bench.land(contract(), file_format).ids == [str(one) for one in ids]


def test_neighbours_that_one_float_would_merge_stay_two_users(bench, contract) -> None:
    bench.parquet({"uid": pa.array([2**53, 2**53 + 1], pa.int64())})
    assert bench.land(contract()).ids == ["9007199254740992", "9007199254740993"]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_every_whole_number_is_its_own_text(values: list[int]) -> None:
    assert cast_id(pa.array(values, pa.int64())).values.to_pylist() == [str(value) for value in values]


@given(st.lists(st.integers(0, 10**20 - 1)))
def test_whole_decimals_are_exact_ids(values: list[int]) -> None:
    ids = pa.array([str(value) for value in values], pa.string()).cast(pa.decimal128(20, 0))
    assert cast_id(ids).values.to_pylist() == [str(value) for value in values]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_every_text_that_is_not_blank_is_kept_as_it_stands(values: list[str]) -> None:
    cast = cast_id(pa.array(values, pa.string()))
    assert cast.values.to_pylist() == values
    struck = [any(fault.rows[i].as_py() for fault in cast.faults) for i in range(len(values))]
    assert struck == [not value.strip() or value.isspace() for value in values]


def test_a_float_id_column_is_refused_by_name(bench, contract) -> None:
    path = bench.parquet({"uid": pa.array([1.0, 2.0])})
    with pytest.raises(ContractError, match=r"id column 'uid'.*double") as error:
        bench.land(contract())
    assert str(path) in str(error.value)


FROM_FLOATS = [
    ["1.0", "2.0", ""],
    ["9.223372036854775807e+18"],
    ["9.2e18", "1.0"],
    ["7,0", "8,0"],
    ["9,22337E+18", "9,11E+18"],
    ["9E+18", "8E+18"],
    ["1.0", "1e+16"],
    ["1e16", "-2.0"],
    ["12", "8.1234E+18"],
    *([null, "7.0", "8.0"] for null in ("nan", "NaN", "NA", "null", "NULL", r"\N", "None", "<NA>", "#N/A", "inf")),
]


@pytest.mark.parametrize("ids", FROM_FLOATS)
@pytest.mark.parametrize("file_format", ["csv", "parquet", "ndjson"])
def test_ids_that_were_written_from_floats_are_refused_naming_file_and_row(bench, contract, file_format, ids) -> None:
    if file_format == "csv":
        path = bench.write("a.csv", "uid;n\n" + "".join(f"{one};1\n" for one in ids))
    elif file_format == "parquet":
        path = bench.parquet({"uid": ids})
    else:
        path = bench.write("a.ndjson", "".join(json.dumps({"uid": one}) + "\n" for one in ids))
    row = next(n for n, one in enumerate(ids, start=1) if any(mark in one for mark in (".0", ",0", "e+", "E+", "e1")))
    with pytest.raises(ContractError, match=rf"'uid' were written from floats; row {row} has '\S+'") as error:
        bench.land(contract(), file_format, csv=CsvSettings(delimiter=";"))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "ids", [["1.0", "beta"], ["1.0", "1.0.2", "v1.0"], ["1.0", "1.5"], ["1.0", "007"], ["1e5", "1a5"], ["NA", "null"]]
)
@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_one_id_that_no_float_prints_makes_the_others_text(bench, contract, file_format, ids) -> None:
    if file_format == "csv":
        bench.write("a.csv", "uid\n" + "\n".join(ids))
    else:
        bench.parquet({"uid": pa.array(ids).dictionary_encode()})
    assert bench.land(contract(), file_format).ids == ids


def test_ids_from_floats_are_told_apart_file_by_file_over_all_batches(bench, contract, monkeypatch) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", 4)
    bench.write("a.csv", "uid\n" + "\n".join(["1.0"] * 9 + ["v2"]))
    bench.write("aa.csv", "uid\n" + "\n".join(["1", "2", "3", "04", "5.0"]))
    odd = bench.write("b.csv", "uid\n" + "\n".join([*map(str, range(10, 19)), "9E+18"]))
    with pytest.raises(ContractError, match=r"row 10 has '9E\+18'") as error:
        bench.land(contract(), "csv")
    assert str(odd) in str(error.value)


@pytest.mark.parametrize("file_format", ["parquet", "csv", "ndjson"])
def test_texts_that_look_like_something_else_stay_text(bench, contract, file_format) -> None:
    ids = ["007", "NA", "null", "None", "nan", "1.0", "1e5", " x ", "True", "é"]
    if file_format == "parquet":
        bench.parquet({"uid": ids})
    elif file_format == "csv":
        bench.write("a.csv", "uid\n" + "\n".join(ids))
    else:
        bench.write("a.ndjson", "\n".join(json.dumps({"uid": one}) for one in ids))
    assert bench.land(contract(), file_format).ids == ids


def test_ids_are_not_taken_for_the_csvs_null_values(bench, contract) -> None:
    bench.write("a.csv", "uid,plan\nNA,NA\n")
    landed = bench.land(contract(plan="string"), "csv", csv=CsvSettings(null_values=("", "NA")))
    assert landed.users.to_pylist() == [{"user_id": "NA", "plan": None}]


def test_null_and_blank_ids_are_set_aside_with_their_row(bench, contract) -> None:
    bench.parquet({"uid": ["a", None, "  ", "b", ""]})
    landed = bench.land(contract())
    assert landed.ids == ["a", "b"]
    assert [(row["reason"], row["row"]) for row in landed.quarantine] == [
        ("uid: null", 2),
        ("uid: blank", 3),
        ("uid: blank", 5),
    ]


def test_ids_of_two_kinds_in_one_file_are_refused_naming_the_first_odd_row(bench, contract) -> None:
    path = bench.write("a.ndjson", '{"uid": 1}\n{"uid": null}\n{"uid": "1"}\n{"uid": "x"}\n')
    with pytest.raises(ContractError, match=r"row 3 has the text '1', and row 1 the number 1") as error:
        bench.land(contract(), "ndjson")
    assert str(path) in str(error.value)


@pytest.mark.parametrize("odd", ["1.5", "true", '["a"]', "{}", "1e3"])
def test_an_id_that_is_neither_text_nor_whole_is_refused_naming_its_row(bench, contract, odd) -> None:
    bench.write("a.ndjson", '{"uid": 1}\n{"uid": ' + odd + "}\n")
    with pytest.raises(ContractError, match="row 2 has"):
        bench.land(contract(), "ndjson")


def test_ids_of_two_kinds_in_two_files_are_refused_naming_the_file(bench, contract) -> None:
    bench.parquet({"uid": [1, 2]}, "a.parquet")
    path = bench.parquet({"uid": ["1", "2"]}, "b.parquet")
    with pytest.raises(ContractError, match="of two kinds; row 1 has text") as error:
        bench.land(contract())
    assert str(path) in str(error.value)


def test_a_file_whose_ids_are_all_null_agrees_with_any_other(bench, contract) -> None:
    bench.parquet({"uid": pa.nulls(2)}, "a.parquet")
    bench.parquet({"uid": [1]}, "b.parquet")
    landed = bench.land(contract())
    assert (landed.ids, landed.facts["reasons"]) == (["1"], {"uid: null": 2})


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_text_ids_are_the_same_in_every_encoding(bench, contract, kind) -> None:
    bench.parquet({"uid": pa.array(["b", "a", "c"]).cast(kind)})
    assert bench.land(contract()).ids == ["b", "a", "c"]


@pytest.mark.parametrize("bad", [pa.array([True]), pa.array([b"x"]), pa.array([dt.date(2026, 1, 1)])])
def test_other_types_are_no_ids(bench, contract, bad) -> None:
    bench.parquet({"uid": bad})
    with pytest.raises(ContractError, match="id column 'uid'"):
        bench.land(contract())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(position=st.integers(0, 5))
def test_the_odd_row_is_named_wherever_it_stands(bench, contract, position) -> None:
    values = ["1"] * 6
    values[position] = '"x"'
    bench.write("a.ndjson", "".join(f'{{"uid": {value}}}\n' for value in values))
    with pytest.raises(ContractError, match=f"row {max(position + 1, 2)} has"):
        bench.land(contract(), "ndjson")
