"""NDJSON sources: exact numbers, and the same rows by the fast way and by the slow one."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import ContractError, SourceError
from profile_assets.users import ndjson_file

EVERY_TYPE = {
    "i": "int64",
    "f": "float64",
    "d": "decimal(12,2)",
    "b": "bool",
    "s": "string",
    "day": "date",
    "at": "timestamp",
    "v": "list<float32>",
}
LINE = (
    '{"uid": "%s", "i": 9007199254740993, "f": 0.1, "d": 1234567890.12, "b": true, "s": "x", "day": "2026-01-05", '
    '"at": "2026-01-05T12:00:00Z", "v": [1, 2.5], "other": {"deep": [1]}}\n'
)
ROW = {
    "i": 2**53 + 1,
    "f": 0.1,
    "d": Decimal("1234567890.12"),
    "b": True,
    "s": "x",
    "day": dt.date(2026, 1, 5),
    "at": dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC),
    "v": [1.0, 2.5],
}


def test_every_type_is_exact_and_the_same_beside_an_odd_line(bench, contract) -> None:
    bench.write("a.ndjson", LINE % "a")
    bench.write("b.ndjson", LINE % "b" + "no row\n")
    landed = bench.land(contract(**EVERY_TYPE), "ndjson")
    assert landed.users.to_pylist() == [{"user_id": "a", **ROW}, {"user_id": "b", **ROW}]
    assert [(row["reason"], row["row"], row["raw"]) for row in landed.quarantine] == [
        ("row: not JSON", 2, {"line": "no row"})
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "row: not a JSON object"),
        ("{", "row: not JSON"),
        ('{"uid": "b", "uid": "c"}', "row: a key twice"),
        ('{"uid": "\\ud800"}', "row: not UTF-8"),
        ('{"uid": "b"}{"uid": "c"}', "row: not JSON"),
        ('{"uid": "b", "x": "1"}', "x: not int64"),
        ('{"uid": "b", "x": 1.5}', "x: not int64"),
        ('{"uid": "b", "x": 9223372036854775808}', "x: not int64"),
        ('{"uid": "b", "x": [1]}', "x: not int64"),
        ('{"uid": "b\\u0000"}', "uid: holds a NUL"),
        ('{"x": 1}', "uid: null"),
        ("[" * 100_000, "row: not JSON"),
    ],
)
def test_one_odd_line_costs_its_own_row(bench, contract, line, reason) -> None:
    bench.write("a.ndjson", '{"uid": "a", "x": 1}\n' + line + '\n{"uid": "z", "x": null}\n')
    landed = bench.land(contract(x="int64"), "ndjson")
    assert landed.ids == ["a", "z"]
    assert [(row["reason"], row["row"]) for row in landed.quarantine] == [(reason, 2)]


def test_bytes_that_are_no_text_cost_their_own_row(bench, contract) -> None:
    bench.write("a.ndjson", b'{"uid": "a"}\n{"uid": "\xff"}\n')
    landed = bench.land(contract(), "ndjson")
    assert (landed.ids, landed.facts["reasons"]) == (["a"], {"row: not UTF-8": 1})


def test_a_key_that_a_row_lacks_is_null_and_blank_lines_are_no_rows(bench, contract) -> None:
    bench.write("a.ndjson", '\ufeff{"uid": "a", "x": 1}\n\n  \n{"uid": "b"}\n')
    landed = bench.land(contract(x="int8"), "ndjson")
    assert (landed.column("x"), landed.facts["read"]) == ([1, None], 2)


def test_a_key_that_no_row_has_is_missing(bench, contract) -> None:
    bench.write("a.ndjson", '{"uid": "a", "ag": 1}\n')
    with pytest.raises(ContractError, match="did you mean 'ag'"):
        bench.land(contract(age="int8"), "ndjson")


@pytest.mark.parametrize("end", ['{"uid": "b"', "{"])
def test_a_file_that_was_cut_short_is_named(bench, contract, end) -> None:
    bench.write("a.ndjson", '{"uid": "a"}\n' + end)
    with pytest.raises(SourceError, match=r"a\.ndjson was cut short"):
        bench.land(contract(), "ndjson")


def test_a_last_line_without_an_end_is_whole_if_it_is_json(bench, contract) -> None:
    bench.write("a.ndjson", '{"uid": "a"}\n{"uid": "b"}')
    assert bench.land(contract(), "ndjson").ids == ["a", "b"]


def test_a_file_of_blank_lines_has_no_rows(bench, contract) -> None:
    bench.write("a.ndjson", "\n\n")
    assert bench.land(contract(x="int8"), "ndjson").facts["read"] == 0


def test_decimals_may_be_numbers_or_text(bench, contract) -> None:
    bench.write("a.ndjson", '{"uid": "a", "d": 1.10}\n{"uid": "b", "d": "2.20"}\n{"uid": "c", "d": 1.234}\n')
    landed = bench.land(contract(d="decimal(12,2)"), "ndjson")
    assert landed.column("d") == [Decimal("1.10"), Decimal("2.20")]
    assert landed.facts["reasons"] == {"d: not decimal(12,2)": 1}


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(0, 9)),
)
OBJECTS = st.fixed_dictionaries({"uid": st.text("abc\0 ", max_size=3)}, optional={"x": VALUES, "y": VALUES})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    rows=st.lists(OBJECTS, max_size=20),
    block=st.sampled_from([16, 100, 8 << 20]),
    kinds=st.tuples(*[st.sampled_from(sorted({*EVERY_TYPE.values()} | {"int8", "list<float32,2>"}))] * 2),
)
def test_every_line_is_kept_or_set_aside_by_either_way(bench, contract, monkeypatch, rows, block, kinds) -> None:
    monkeypatch.setattr(ndjson_file, "_BLOCK_BYTES", block)
    bench.write("a.ndjson", "".join(json.dumps(row) + "\n" for row in rows) or "\n")
    declared = contract(x=kinds[0], y=kinds[1])
    try:
        fast = bench.land(declared, "ndjson")
    except ContractError:
        return
    monkeypatch.setattr(ndjson_file.NdjsonReader, "_fast", lambda *_: None)
    slow = bench.land(declared, "ndjson")
    assert fast.facts["read"] == len(rows)
    assert fast.facts == slow.facts
    assert repr(fast.users.to_pylist()) == repr(slow.users.to_pylist())
