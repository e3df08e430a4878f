"""CSV sources: read as text, whatever their writer's habits; broken rows kept apart, cut files refused."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import ContractError, SourceError
from profile_assets.users import csv_file
from profile_assets.users.source import CsvSettings


def test_a_byte_order_mark_and_a_quoted_header(bench, contract) -> None:
    bench.write("a.csv", '\ufeff"uid","x"\r\n"a","1"\r\n"b","2"\r\n')
    assert bench.land(contract(x="int8"), "csv").users.to_pylist() == [
        {"user_id": "a", "x": 1},
        {"user_id": "b", "x": 2},
    ]


def test_decimal_comma_thousands_and_another_delimiter(bench, contract) -> None:
    bench.write("a.csv", "uid;x;n\na;1.234,5;1.000\n")
    rules = CsvSettings(delimiter=";", decimal=",", thousands=".")
    assert bench.land(contract(x="float64", n="int32"), "csv", csv=rules).users.to_pylist() == [
        {"user_id": "a", "x": 1234.5, "n": 1000}
    ]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-32"])
def test_a_header_of_another_encoding_is_refused_by_name(bench, contract, encoding) -> None:
    bench.write("a.csv", "uid,größe\na,1\n".encode(encoding))
    with pytest.raises(SourceError, match=r"a\.csv is not UTF-8: its header has a column '.*iconv"):
        bench.land(contract(), "csv")


def test_the_wrong_delimiter_is_a_contract_error(bench, contract) -> None:
    bench.write("a.csv", "uid;x\na;1\n")
    with pytest.raises(ContractError, match=r"'uid'.*is missing"):
        bench.land(contract(x="int8"), "csv")


def test_a_nul_inside_a_field_sets_its_row_aside(bench, contract) -> None:
    bench.write("a.csv", "uid,plan\na,go\0ld\nb\0,x\nc,y\n")
    landed = bench.land(contract(plan="string"), "csv")
    assert landed.ids == ["c"]
    assert [row["reason"] for row in landed.quarantine] == ["plan: holds a NUL", "uid: holds a NUL"]
    assert landed.quarantine[0]["raw"] == {"uid": "a", "plan": "go\0ld"}


def test_rows_with_other_numbers_of_fields_are_set_aside_with_their_line(bench, contract) -> None:
    bench.write("a.csv", "uid,x\na,1\nb\n\nc,2,3\nd,x\ne,4\n")
    landed = bench.land(contract(x="int8"), "csv")
    assert landed.ids == ["a", "e"]
    assert sorted((row["row"], row["reason"], str(row["raw"])) for row in landed.quarantine) == [
        (2, "row: 1 fields instead of 2", "{'line': 'b'}"),
        (3, "row: 3 fields instead of 2", "{'line': 'c,2,3'}"),
        (4, "x: not int8", "{'uid': 'd', 'x': 'x'}"),
    ]


@pytest.mark.parametrize(
    "text",
    ['uid,x\na,1\nb,"2\nc,3\n', 'uid,x\na,1\n"b,2\nc,3\n', 'uid,x\na,1\nb,"2', "uid,x\na,1\nb", 'uid,x\na,1\nb,"2\n3'],
)
def test_a_file_that_was_cut_short_is_named(bench, contract, text) -> None:
    bench.write("a.csv", text)
    with pytest.raises(SourceError, match=r"a\.csv was cut short"):
        bench.land(contract(), "csv")


@pytest.mark.parametrize("text", ['uid,x\na,5"\nb,6\n', 'uid,x\na,"1\n2"\n', 'uid,x\na,"say ""hi"""', "uid,x\na,1"])
def test_quotes_that_are_in_order_are_no_cut(bench, contract, text) -> None:
    bench.write("a.csv", text)
    assert bench.land(contract(), "csv").ids[0] == "a"


def test_a_header_without_rows_is_fine_with_and_without_a_line_end(bench, contract) -> None:
    bench.write("a.csv", "uid,x")
    bench.write("b.csv", "uid,x\n")
    assert bench.land(contract(x="int8"), "csv").ids == []


def test_a_file_of_nothing_but_a_line_end_is_named(bench, contract) -> None:
    bench.write("a.csv", "\n")
    with pytest.raises(SourceError, match=r"a\.csv"):
        bench.land(contract(), "csv")


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_row_whose_text_is_not_utf8_is_set_aside_with_its_number(bench, contract, end) -> None:
    bench.write("a.csv", b"uid,plan\na,gold\nb,caf\xe9\n\xff,x\nc,d\xe9" + end)
    landed = bench.land(contract(plan="string"), "csv")
    assert landed.ids == ["a"]
    assert [(row["row"], row["reason"], row["raw"]["line"]) for row in landed.quarantine] == [
        (2, "row: 'plan' is not UTF-8", "caf\\xe9"),
        (3, "row: 'uid' is not UTF-8", "\\xff"),
        (4, "row: 'plan' is not UTF-8", "d\\xe9"),
    ]


def test_a_compressed_file_is_read_and_a_cut_one_named(bench, contract) -> None:
    data = gzip.compress(("uid\n" + "".join(f"{n}\n" for n in range(1000))).encode())
    path = bench.write("a.csv.gz", data)
    assert len(bench.land(contract(), "csv").ids) == 1000
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"a\.csv\.gz"):
        bench.land(contract(), "csv")


def test_declared_null_values_are_null_quoted_or_not(bench, contract) -> None:
    bench.write("a.csv", 'uid,x,plan\na,NULL,"NULL"\nb,,""\nc,"",gold\n')
    rules = CsvSettings(null_values=("", "NULL"))
    landed = bench.land(contract(x="int8", plan="string"), "csv", csv=rules)
    assert (landed.column("x"), landed.column("plan")) == ([None] * 3, [None, None, "gold"])


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(rows=ROWS, block=st.sampled_from([256, 512, 8 << 20]), ends=st.sampled_from(["\n", "\r\n"]))
def test_every_row_that_was_written_is_kept_or_set_aside(bench, contract, monkeypatch, rows, block, ends) -> None:
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", block)
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=ends)
    writer.writerows([["uid", "x"], *rows])
    bench.write("a.csv", out.getvalue())
    landed = bench.land(contract(x="string"), "csv")
    assert landed.facts["read"] == len(rows)
    kept = set(range(1, len(rows) + 1))
    for row in landed.quarantine:
        kept.remove(row["row"])
        assert row["reason"].startswith("uid:") == (len(rows[row["row"] - 1]) == 2)
    assert landed.ids == [rows[number - 1][0] for number in sorted(kept)]
