"""Landing: every row is kept or set aside with its reason; the same source lands the same; nothing old remains."""

from __future__ import annotations

import datetime as dt
import hashlib
import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profile_assets.errors import AccountingError, ContractError, DataError, DiskError, SourceError
from profile_assets.storage.layout import RAW_USERS
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.stages import current, require
from profile_assets.users import batches, land, parquet_file
from profile_assets.users.contract import Column
from profile_assets.users.land import clean_batches, commit_landing

DAY = dt.date(2026, 1, 5)
NEXT = dt.date(2026, 1, 6)


def test_what_was_read_was_kept_or_set_aside_and_the_manifest_says_so(bench, contract) -> None:
    bench.write("_SUCCESS", b"")
    bench.parquet({"uid": ["a", "b", None], "x": [1, 900, 3], "more": [1, 2, 3]}, "a.parquet")
    bench.parquet({"uid": ["c"], "x": [4], "more": [1]}, "b.parquet")
    landed = bench.land(contract(x="int8"))
    assert landed.facts == {
        "read": 4,
        "kept": 2,
        "quarantined": 2,
        "quarantined_keys": landed.facts["quarantined_keys"],
        "reasons": {"uid: null": 1, "x: not int8": 1},
        "sources": [{"file": "a.parquet", "rows": 3}, {"file": "b.parquet", "rows": 1}],
        "ignored_files": ["_SUCCESS"],
        "extra_columns": ["more"],
        "absent_columns": [],
        "source_columns": {"more": "int64", "uid": "string", "x": "int64"},
    }
    assert landed.facts["quarantined_keys"]["count"] == 2
    assert set(landed.staged.manifest.made_from) == {"source", "contract"}
    assert landed.staged.manifest.rows == 2


@pytest.mark.parametrize("schema", ["users", "quarantine"])
def test_a_write_that_doubles_as_many_rows_as_it_loses_fails_the_day(bench, contract, monkeypatch, schema) -> None:
    """The count is right on both sides; the rows that lie on the disk are not those that were read."""

    class Forgetful(ParquetSink):
        def write(self, rows: pa.RecordBatch | pa.Table) -> None:
            is_meant = ("reason" in rows.schema.names) == (schema == "quarantine")
            super().write(rows.take([1, *range(1, rows.num_rows)]) if is_meant else rows)

    monkeypatch.setattr(land, "ParquetSink", Forgetful)
    bench.parquet({"uid": ["a", "b", "c", "d"], "x": [1, 2, 900, 901]})
    with pytest.raises(AccountingError, match="2 were to be kept and 2 set aside; on disk are 2 and 2, or they are"):
        bench.land(contract(x="int8"))


def test_a_row_set_aside_carries_reason_file_row_and_itself_with_personal_columns_hashed(bench, contract) -> None:
    email = Column(name="email", type=pa.string(), personal=True)
    bench.parquet({"uid": ["a", "b"], "email": ["a@x", None], "x": [1e9, float("inf")], "secret": ["s", "t"]})
    landed = bench.land(contract(email=email, x=Column(name="x", type=pa.float64(), maximum=10.0)))
    hashed = hashlib.md5(b"a@x", usedforsecurity=False).hexdigest()[:12]
    assert landed.quarantine == [
        {
            "reason": "x: above the maximum",
            "file": "a.parquet",
            "row": 1,
            "raw": {"uid": "a", "email": hashed, "x": 1e9},
        },
        {"reason": "x: infinite", "file": "a.parquet", "row": 2, "raw": {"uid": "b", "email": None, "x": "inf"}},
    ]


def test_a_broken_line_shows_no_personal_value(bench, contract) -> None:
    bench.write("a.csv", "uid,email\na\n")
    landed = bench.land(contract(email=Column(name="email", type=pa.string(), personal=True)), "csv")
    assert landed.quarantine[0]["raw"] == {"line": hashlib.md5(b"a", usedforsecurity=False).hexdigest()[:12]}


def test_a_row_with_several_faults_is_counted_once(bench, contract) -> None:
    bench.parquet({"uid": [None], "x": [900], "y": [900]}, "a.parquet")
    assert bench.land(contract(x="int8", y="int8")).facts["reasons"] == {"uid: null": 1}


def test_nulls_land_and_are_left_to_the_null_rate(bench, contract) -> None:
    bench.parquet({"uid": ["a"], "x": pa.nulls(1, pa.int8()), "f": [float("nan")]})
    landed = bench.land(contract(x=Column(name="x", type=pa.int8(), minimum=0, max_null_rate=0.0), f="float64"))
    assert landed.ids == ["a"]


@pytest.mark.parametrize(("keep", "kept"), [("first", [1, 2, 4]), ("last", [2, 5, 6])])
@pytest.mark.parametrize("batch_rows", [2, 1000])
def test_a_user_stands_there_once_by_the_contracts_rule(bench, contract, monkeypatch, keep, kept, batch_rows) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", batch_rows)
    monkeypatch.setattr(parquet_file, "BATCH_ROWS", batch_rows)
    bench.parquet({"uid": ["a", "b", "a"], "x": [1, 2, 1]}, "a.parquet")
    bench.parquet({"uid": ["c", "a", None, "c"], "x": [4, 5, 5, 6]}, "b.parquet")
    landed = bench.land(contract(x="int64", keep=keep))
    assert landed.column("x") == kept
    assert landed.facts["reasons"] == {"uid: null": 1, "uid: repeated": 3}
    assert landed.facts["read"] == 7


def test_a_repeated_row_is_set_aside_as_it_stands_in_its_file(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b", "a"], "x": [1, 2, 3]})
    assert bench.land(contract(x="int64")).quarantine == [
        {"reason": "uid: repeated", "file": "a.parquet", "row": 3, "raw": {"uid": "a", "x": 3}}
    ]


def test_a_faulty_row_does_not_push_out_a_good_one_of_the_same_user(bench, contract) -> None:
    bench.parquet({"uid": ["a", "a"], "x": [900, 3]})
    landed = bench.land(contract(x="int8"))
    assert (landed.column("x"), landed.facts["reasons"]) == ([3], {"x: not int8": 1})


def test_too_many_rows_set_aside_fail_the_day_and_stay_to_be_looked_at(bench, contract) -> None:
    bench.parquet({"uid": ["a", None, None, "b"]})
    with pytest.raises(DataError, match=r"2 of 4 rows of 2026-01-05 .* uid: null \(2\)"):
        bench.land(contract(max_quarantine_rate=0.49))
    assert pq.read_metadata(bench.layout.staging("quarantine", DAY) / "rows.parquet").num_rows == 2
    assert bench.land(contract(max_quarantine_rate=0.5)).ids == ["a", "b"]


def test_a_rate_of_zero_is_a_limit(bench, contract) -> None:
    bench.parquet({"uid": ["a", None]})
    with pytest.raises(DataError, match="1 of 2 rows"):
        bench.land(contract(max_quarantine_rate=0.0))


def test_a_day_in_the_rows_is_compared_with_the_one_in_the_path(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b", "c"], "day": [DAY, NEXT, None]})
    landed = bench.land(contract())
    assert landed.ids == ["a"]
    assert landed.facts["reasons"] == {"day: not the day in its path": 2}
    assert landed.quarantine[0]["raw"] == {"uid": "b", "day": "2026-01-06"}


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_a_day_in_text_rows_is_compared_too(bench, contract, file_format) -> None:
    content = {
        "csv": "uid,day\na,2026-01-05\nb,2026-01-06\n",
        "ndjson": '{"uid": "a", "day": "2026-01-05"}\n{"uid": "b", "day": "2026-01-06"}\n',
    }[file_format]
    bench.write(f"a.{file_format}", content)
    assert bench.land(contract(), file_format).ids == ["a"]


def test_a_day_that_cannot_be_compared_is_refused_by_name(bench, contract) -> None:
    bench.parquet({"uid": ["a"], "day": [20260105]})
    with pytest.raises(ContractError, match="column 'day' is int64"):
        bench.land(contract())


def test_a_declared_day_column_is_compared_and_lands(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b"], "day": [DAY, NEXT]})
    assert bench.land(contract(day="date")).column("day") == [DAY]


def test_the_same_source_lands_the_same_whatever_its_times(bench, contract) -> None:
    path = bench.parquet({"uid": ["a", "a"], "x": [1, 2]})
    first = bench.land(contract(x="int64")).staged.manifest
    path.write_bytes(path.read_bytes())
    assert bench.land(contract(x="int64")).staged.manifest.digest == first.digest
    bench.parquet({"uid": ["a", "a"], "x": [1, 3]})
    assert bench.land(contract(x="int64")).staged.manifest.made_from["source"] != first.made_from["source"]


def test_a_commit_makes_the_day_true_and_leaves_nothing_old(bench, contract) -> None:
    bench.parquet({"uid": ["a", None, "b"]})
    commit_landing(bench.layout, DAY, bench.land(contract()).staged)
    bench.parquet({"uid": ["a"]})
    manifest = commit_landing(bench.layout, DAY, bench.land(contract()).staged)
    assert require(bench.layout, RAW_USERS, DAY).digest == manifest.digest
    assert pq.read_metadata(bench.layout.quarantine(DAY) / "rows.parquet").num_rows == 0
    assert [file.name for file in bench.layout.quarantine(DAY).iterdir()] == ["rows.parquet"]
    assert manifest.rows == 1


def test_a_landing_is_nobodys_truth_before_its_commit_and_touches_no_other_day(bench, contract) -> None:
    bench.parquet({"uid": ["a"]})
    bench.parquet({"uid": ["b"]}, day=NEXT)
    committed = commit_landing(bench.layout, DAY, bench.land(contract()).staged)
    bench.land(contract(), day=NEXT)
    assert current(bench.layout, RAW_USERS, NEXT) is None
    assert require(bench.layout, RAW_USERS, DAY) == committed


def test_a_source_rewritten_while_it_is_read_fails_the_day(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b"]})

    def rewrite(_: int) -> None:
        bench.parquet({"uid": ["a", "b", "c"]})

    with pytest.raises(SourceError, match="changed while it was read"):
        land.land(bench.settings(), contract(), DAY, bench.layout, progress=rewrite)


def test_progress_is_told_the_rows_read(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b"]}, "a.parquet")
    bench.parquet({"uid": ["c", "c"]}, "b.parquet")
    told: list[int] = []
    land.land(bench.settings(), contract(max_quarantine_rate=1.0), DAY, bench.layout, progress=told.append)
    assert told == [2, 4]


def test_row_groups_are_even_however_the_source_is_cut(bench, contract, monkeypatch) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", 4)
    for number in range(10):
        bench.parquet({"uid": [f"{number}a", f"{number}b", f"{number}c"]}, f"{number}.parquet")
    landed = bench.land(contract())
    metadata = pq.read_metadata(landed.staged.folder / "users.parquet")
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [4] * 7 + [2]


def test_the_batches_for_training_are_the_rows_that_would_land(bench, contract) -> None:
    bench.parquet({"uid": ["a", "b", None, "a"], "x": [1, 900, 2, 3]}, "a.parquet")
    bench.parquet({"uid": [None], "x": [1]}, "b.parquet")
    for keep in ("first", "last"):
        declared = contract(x="int8", keep=keep)
        table = pa.Table.from_batches(clean_batches(bench.settings(), declared, DAY), declared.schema)
        assert table.equals(bench.land(declared).users)


COLUMNS = {
    "uid": st.one_of(st.none(), st.sampled_from(["a", "b", "7", "", " ", "007", "x\0"])),
    "i": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5)),
    "f": st.one_of(st.none(), st.floats()),
    "d": st.one_of(st.none(), st.decimals(-(10**6), 10**6, places=3)),
    "s": st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)),
    "b": st.one_of(st.none(), st.booleans()),
}
TYPES = {
    "uid": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "i": [pa.int64()],
    "f": [pa.float64(), pa.float32()],
    "d": [pa.decimal128(12, 3)],
    "s": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    "b": [pa.bool_()],
}
DECLARED = {"i": "int8", "f": "float32", "d": "decimal(6,2)", "s": "string", "b": "bool"}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    names = draw(st.permutations([name for name in COLUMNS if name == "uid" or draw(st.integers(0, 9))]))
    arrays = []
    for name in names:
        values = draw(st.lists(COLUMNS[name], min_size=rows, max_size=rows))
        kind = pa.null() if draw(st.integers(0, 9)) == 0 else draw(st.sampled_from(TYPES[name]))
        array = pa.nulls(rows) if pa.types.is_null(kind) else _array(values, kind)
        arrays.append(array)
    return pa.table(arrays, names=names)


def _array(values: list, kind: pa.DataType) -> pa.Array:
    if pa.types.is_float32(kind):
        return pa.array(values, pa.float64()).cast(kind, safe=False)
    if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40, deadline=None
)
@given(days=st.lists(tables(), min_size=1, max_size=3), keep=st.sampled_from(["first", "last"]))
def test_whatever_comes_in_is_kept_or_set_aside_or_refused_by_name(bench, contract, days, keep) -> None:
    for path in bench.folder().iterdir():
        path.unlink()
    for number, table in enumerate(days):
        bench.parquet(table, f"{number}.parquet")
    missing = {name for table in days for name in DECLARED if name not in table.schema.names}
    try:
        landed = bench.land(contract(keep=keep, **DECLARED))
    except ContractError as error:
        assert missing
        assert all(repr(name) in str(error) for name in missing)  # noqa: PT017
        return
    facts = landed.facts
    assert not missing
    assert facts["read"] == sum(table.num_rows for table in days) == facts["kept"] + facts["quarantined"]
    assert len(landed.quarantine) == facts["quarantined"] == sum(facts["reasons"].values())
    assert len(set(landed.ids)) == len(landed.ids) == facts["kept"]
    _nothing_was_bent(days, landed)


def _as_float32(value: float | None) -> float | None:
    return pa.array([value], pa.float64()).cast(pa.float32(), safe=False)[0].as_py()


def _nothing_was_bent(days, landed) -> None:
    """Every landed row stands in the source as it landed."""
    source = {}
    for table in days:
        for row in table.to_pylist():
            source.setdefault(row["uid"], []).append(row)
    for row in landed.users.to_pylist():
        same = [
            one
            for one in source[row["user_id"]]
            if all(one[name] == row[name] for name in "isb")
            and repr(_as_float32(one["f"])) == repr(row["f"])
            and (one["d"] is None) == (row["d"] is None)
            and (one["d"] is None or Decimal(one["d"]) == row["d"])
        ]
        assert same


def test_a_disk_without_room_for_the_day_is_said_before_anything_is_written(bench, contract, monkeypatch) -> None:
    bench.parquet({"uid": ["a", "b"], "x": [1, 2]})
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1))
    with pytest.raises(DiskError, match=r"2026-01-05, from its source to its publication, needs about [\d,]+ bytes"):
        bench.land(contract(x="int8"))
    monkeypatch.undo()
    assert bench.land(contract(x="int8")).staged.manifest.rows == 2
