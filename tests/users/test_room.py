"""A day asks the disk for room by what its rows take unpacked, however tightly the source packs them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from profile_assets.storage.layout import Layout
from profile_assets.users import land as landing
from profile_assets.users.contract import Column, Contract
from profile_assets.users.parquet_file import ParquetReader
from profile_assets.users.source import SourceFile
from profile_assets.users.source_settings import SourceSettings

DAY = dt.date(2026, 1, 5)
ROWS = 5_000
CONTRACT = Contract(
    id="user_id",
    columns=tuple(Column(name=f"whole_{n}", type=pa.int64()) for n in range(8)),
    max_quarantine_rate=0.0,
)


def users(width: int = 9) -> pa.Table:
    ids = pa.array([f"{n:0{width}d}" for n in range(ROWS)])
    digits = {column.name: pa.array([(n * 7919 + n // 10) % 10 for n in range(ROWS)]) for column in CONTRACT.columns}
    return pa.table({"user_id": ids, **digits, "not_wanted": ids})


def write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd")
    elif path.suffix == ".json":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    else:
        sink = pa.BufferOutputStream()
        pa_csv.write_csv(table, sink)
        text = sink.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.parametrize("name", ["users.parquet", "users.csv", "users.csv.gz", "users.json"])
def test_a_day_asks_for_no_less_than_its_landing_takes(tmp_path, monkeypatch, name):
    folder = tmp_path / f"source/day={DAY}"
    folder.mkdir(parents=True)
    write(users(), folder / name)
    asked = []
    monkeypatch.setattr(landing, "require_space", lambda _layout, _doing, needed: asked.append(needed))
    kind = {".parquet": "parquet", ".json": "ndjson"}.get(Path(name).suffix, "csv")
    source = SourceSettings(path=str(tmp_path / "source"), format=kind)
    staged = landing.land(source, CONTRACT, DAY, Layout(root=tmp_path, name="risk"))
    (entry,) = staged.manifest.files
    assert 2 * entry.size_bytes < asked[0]


def test_columns_that_nobody_wants_take_their_share_less_room(tmp_path):
    path = tmp_path / "users.parquet"
    write(users(100), path)
    file = SourceFile(path=str(path), name=path.name, size_bytes=path.stat().st_size, modified_ns=0)
    reader = ParquetReader(pafs.LocalFileSystem(), file, plain="user_id")
    assert reader.unpacked_bytes(["whole_0", "not_there"]) < reader.unpacked_bytes(users().column_names) / 8
    assert reader.unpacked_bytes(users().column_names) > 200 * ROWS
