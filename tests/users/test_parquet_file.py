"""Parquet sources: damaged files are named; text comes as it is stored."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import SourceError


@pytest.mark.parametrize("cut", [1, 8, 100])
def test_a_truncated_file_is_named(bench, contract, cut) -> None:
    path = bench.parquet({"uid": [str(n) for n in range(100)], "x": range(100)})
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read"):
        bench.land(contract(x="int64"))


def test_eight_bytes_are_no_parquet_file(bench, contract) -> None:
    bench.write("a.parquet", b"PAR1PAR1")
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read"):
        bench.land(contract())


def test_a_flipped_bit_is_seen_where_the_writer_left_checksums(bench, contract) -> None:
    path = bench.folder() / "a.parquet"
    pq.write_table(pa.table({"uid": [str(n) for n in range(1000)]}), path, write_page_checksum=True, compression="none")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"a\.parquet"):
        bench.land(contract())


def test_a_file_without_rows_is_fine(bench, contract) -> None:
    bench.parquet({"uid": pa.array([], pa.string()), "x": pa.array([], pa.int64())}, "a.parquet")
    bench.parquet({"uid": ["a"], "x": [1]}, "b.parquet")
    landed = bench.land(contract(x="int64"))
    assert (landed.ids, [one["rows"] for one in landed.facts["sources"]]) == (["a"], [0, 1])


def test_a_day_without_rows_lands_as_no_rows(bench, contract) -> None:
    bench.parquet({"uid": pa.array([], pa.string())})
    landed = bench.land(contract(max_quarantine_rate=0.0))
    assert (landed.ids, landed.facts["read"]) == ([], 0)


def test_a_file_without_rows_but_with_other_columns_is_still_refused(bench, contract) -> None:
    from profile_assets.errors import ContractError

    bench.parquet({"uid": pa.array([], pa.string())})
    with pytest.raises(ContractError, match="'x'"):
        bench.land(contract(x="int64"))


def test_rows_are_numbered_in_their_file(bench, contract) -> None:
    bench.parquet({"uid": ["a", None]}, "a.parquet")
    bench.parquet({"uid": ["b", "c", None]}, "b.parquet")
    assert [(row["file"], row["row"]) for row in bench.land(contract()).quarantine] == [
        ("a.parquet", 2),
        ("b.parquet", 3),
    ]


def test_small_row_groups_with_changing_dictionaries(bench, contract) -> None:
    ids = [f"u{n}" for n in range(50)]
    plans = [f"p{n % 7}" if n % 5 else None for n in range(50)]
    table = pa.table({"uid": ids, "plan": plans})
    pq.write_table(table, bench.folder() / "a.parquet", row_group_size=8)
    landed = bench.land(contract(plan="string"))
    assert (landed.ids, landed.column("plan")) == (ids, plans)


def bad_text(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def test_a_row_whose_text_is_not_utf8_is_set_aside_with_its_number(bench, contract) -> None:
    plans = bad_text(b"gold", b"caf\xe9", None, b"caf\xe9", b"tea")
    bench.parquet(pa.table({"uid": bad_text(b"a", b"b", b"\xff", b"d", b"e"), "plan": plans}))
    landed = bench.land(contract(plan="string"))
    assert (landed.ids, landed.column("plan")) == (["a", "e"], ["gold", "tea"])
    assert landed.facts["read"] == 5
    assert [(row["row"], row["reason"], row["raw"]["line"]) for row in landed.quarantine] == [
        (2, "row: 'plan' is not UTF-8", "caf\\xe9"),
        (3, "row: 'uid' is not UTF-8", "\\xff"),
        (4, "row: 'plan' is not UTF-8", "caf\\xe9"),
    ]


def test_text_that_is_not_utf8_in_a_column_nobody_reads_does_no_harm(bench, contract) -> None:
    bench.parquet(pa.table({"uid": ["a"], "plan": bad_text(b"\xff")}))
    assert bench.land(contract()).ids == ["a"]


def test_a_personal_value_that_is_not_utf8_is_hashed(bench, contract) -> None:
    from profile_assets.users.contract import Column

    bench.parquet(pa.table({"uid": ["a"], "mail": bad_text(b"me\xff")}))
    landed = bench.land(contract(mail=Column(name="mail", type=pa.string(), personal=True)))
    assert "me" not in landed.quarantine[0]["raw"]["line"]


def test_a_row_with_a_view_of_text_can_be_set_aside(bench, contract) -> None:
    plans = pa.array(["gold", None, "a text that is longer than twelve bytes"]).cast(pa.string_view())
    bench.parquet(pa.table({"uid": ["a", None, "c"], "plan": plans}))
    landed = bench.land(contract(plan="string"))
    assert (landed.ids, landed.column("plan")) == (["a", "c"], ["gold", "a text that is longer than twelve bytes"])
    assert landed.quarantine[0]["raw"] == {"uid": None, "plan": None}
