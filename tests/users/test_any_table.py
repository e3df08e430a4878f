"""Tables of any types at all: the sums close, or the day fails with an error of ours that names what is wrong."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import ContractError, PermanentError
from profile_assets.users.contract import Column, Contract, parse_type

DECLARED = [
    "string", "int8", "int64", "float32", "float64", "bool", "date", "timestamp", "decimal(6,2)", "decimal(38,0)",
    "list<float32>", "list<float64,2>",
]  # fmt: skip
PLAIN = [
    pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.date32(), pa.date64(), pa.time64("us"), pa.duration("s"),
    pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("ns", "Europe/Berlin"),
    pa.decimal128(12, 3), pa.decimal128(38, 0), pa.decimal256(50, 2),
]  # fmt: skip
NESTED = [
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()), pa.list_(pa.float32()),
    pa.list_(pa.float64(), 2), pa.large_list(pa.int64()), pa.list_(pa.string()), pa.struct([("x", pa.int64())]),
    pa.list_(pa.list_(pa.float32())),
]  # fmt: skip
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["7", "2026-01-05"])
KINDS = st.tuples(st.sampled_from(DECLARED), st.sampled_from(DECLARED))
FLAGS = HealthCheck.function_scoped_fixture, HealthCheck.too_slow


def random_bits(kind: pa.DataType, rows: int, draw: st.DrawFn) -> pa.Array:
    """Any values that a type's memory can hold, the senseless ones too, with nulls."""
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_dictionary(kind):
        return random_bits(kind.value_type, rows, draw).dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([random_bits(pa.int64(), rows, draw)], names=["x"])
    if pa.types.is_nested(kind):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else 2
        lists = pa.FixedSizeListArray.from_arrays(random_bits(kind.value_type, rows * size, draw), size)
        return lists if lists.type == kind else lists.cast(kind)
    texts = (
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["7", "2026-01-05"])
    )
    if pa.types.is_binary(kind) or "string" in str(kind):
        values = draw(st.lists(texts, min_size=rows, max_size=rows))
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(draw(st.lists(st.none() | st.booleans(), min_size=rows, max_size=rows)), kind)
    if pa.types.is_decimal(kind):
        digits = st.none() | st.integers(-(10**12), 10**12)
        whole = pa.array(draw(st.lists(digits, min_size=rows, max_size=rows)), pa.decimal128(38, 0))
        return whole.cast(pa.decimal256(60, 0)).cast(pa.decimal256(76, kind.scale)).cast(kind, safe=False)
    width = kind.bit_width
    top = 2 ** (width - 1)
    numbers = st.none() | st.sampled_from([-top, top - 1, 0, 1]) | st.integers(-top, top - 1)
    raw = pa.array(draw(st.lists(numbers, min_size=rows, max_size=rows)), getattr(pa, f"int{width}")())
    return raw.view(kind)


@st.composite
def odd_tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 6))
    kinds = st.sampled_from([*PLAIN, *NESTED])
    ids = draw(st.sampled_from([pa.string(), pa.int64(), pa.dictionary(pa.int8(), pa.string())]) | kinds)
    columns = {"uid": random_bits(ids, rows, draw)}
    for name in ("x", "y"):
        columns[name] = random_bits(draw(kinds), rows, draw)
    return pa.table(columns)


@settings(suppress_health_check=FLAGS, max_examples=150)
@given(tables=st.lists(odd_tables(), min_size=1, max_size=2), kinds=KINDS)
def test_any_parquet_table_lands_with_closed_sums_or_is_refused_by_name(bench, tables, kinds) -> None:
    for path in bench.folder().iterdir():
        path.unlink()
    for number, table in enumerate(tables):
        bench.parquet(table, f"{number}.parquet")
    try:
        landed = bench.land(contract_of(*kinds))
    except ContractError as error:
        require_names(error, ["'uid'", "'x'", "'y'"])
        return
    require_closed(landed, sum(table.num_rows for table in tables))


CELLS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.integers() | st.floats()
ANY_JSON = CELLS | st.booleans() | st.lists(CELLS, max_size=2) | st.dictionaries(st.just("k"), CELLS, max_size=1)
RECORDS = st.lists(st.fixed_dictionaries({}, optional={"uid": ANY_JSON, "x": ANY_JSON, "y": ANY_JSON}), max_size=8)


@settings(suppress_health_check=FLAGS, max_examples=150)
@given(records=RECORDS, kinds=KINDS)
def test_any_json_lines_land_with_closed_sums_or_are_refused_by_name(bench, records, kinds) -> None:
    bench.write("a.ndjson", "".join(json.dumps(record) + "\n" for record in records) or "\n")
    try:
        landed = bench.land(contract_of(*kinds), "ndjson")
    except ContractError as error:
        require_names(error, ["'uid'", "'x'", "'y'"])
        return
    require_closed(landed, len(records))


@settings(suppress_health_check=FLAGS, max_examples=100)
@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8),
    kinds=KINDS,
)
def test_any_csv_lands_with_closed_sums_or_is_refused_by_name(bench, rows, kinds) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerows([["uid", "x", "y"], *rows])
    bench.write("a.csv", out.getvalue())
    try:
        landed = bench.land(contract_of(*kinds), "csv")
    except ContractError as error:
        require_names(error, ["'uid'", "'x'", "'y'"])
        return
    require_closed(landed, len(rows))


def contract_of(x: str, y: str) -> Contract:
    columns = (Column(name="x", type=parse_type(x)), Column(name="y", type=parse_type(y)))
    return Contract(id="uid", columns=columns, max_quarantine_rate=1.0)


def require_names(error: PermanentError, names: list[str]) -> None:
    if not (error.remedy and any(name in str(error) for name in names)):
        raise AssertionError(f"names nothing: {error}") from error


def require_closed(landed: Any, rows: int) -> None:
    facts = landed.facts
    assert facts["read"] == rows == facts["kept"] + facts["quarantined"]
    assert len(landed.quarantine) == facts["quarantined"] == sum(facts["reasons"].values())
    assert len(landed.ids) == len(set(landed.ids)) == facts["kept"]
