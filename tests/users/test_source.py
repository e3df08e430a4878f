"""Which files are a day's data, and when that data is another."""

from __future__ import annotations

import datetime as dt
import os

import pytest

from profile_assets.errors import SourceError
from profile_assets.users.source import CsvSettings, SourceSettings, find_day, list_day, require_unchanged

DAY = dt.date(2026, 1, 5)
BESIDE = [
    "_SUCCESS",
    "_metadata",
    "_common_metadata",
    ".part-0.parquet.crc",
    "_temporary/0/part-1.parquet",
    ".hidden/part-2.parquet",
    "x.parquet.tmp",
    "part-3.parquet.inprogress",
    "README.md",
]


def names(bench, **more: object) -> list[str]:
    return [file.name for file in find_day(bench.settings(**more), DAY).files]


def test_what_lies_beside_the_data_is_not_data(bench) -> None:
    for name in ["part-0.parquet", "part-1.snappy.PARQUET", "000000_0", "country=de/part-0.parquet", *BESIDE]:
        bench.write(name, b"x")
    bench.write("zero.parquet", b"")
    found = find_day(bench.settings(), DAY)
    assert [file.name for file in found.files] == [
        "000000_0",
        "country=de/part-0.parquet",
        "part-0.parquet",
        "part-1.snappy.PARQUET",
    ]
    assert sorted(found.ignored) == sorted([*BESIDE, "zero.parquet"])


def test_compressed_text_is_data_and_another_format_is_not(bench) -> None:
    for name in ["a.csv", "b.csv.gz", "c.tsv", "d.parquet", "e.json"]:
        bench.write(name, b"x")
    assert names(bench, file_format="csv") == ["a.csv", "b.csv.gz", "c.tsv"]
    assert names(bench, file_format="ndjson") == ["e.json"]


def test_a_template_names_one_file_or_a_folder(bench) -> None:
    path = bench.write("users.csv", b"x")
    one = SourceSettings(path=str(bench.root / "source" / "day={day}" / "users.csv"), format="csv")
    folder = SourceSettings(path=str(bench.root / "source" / "day={day}"), format="csv")
    assert find_day(one, DAY).files[0].path == find_day(folder, DAY).files[0].path == str(path)
    assert find_day(one, DAY).digest == find_day(folder, DAY).digest


def test_another_hive_key(tmp_path) -> None:
    (tmp_path / "table" / "ds=2026-01-05").mkdir(parents=True)
    (tmp_path / "table" / "ds=2026-01-05" / "a.csv").write_text("x")
    assert len(find_day(SourceSettings(path=f"{tmp_path}/table/", format="csv", hive_key="ds"), DAY).files) == 1


def test_a_day_that_is_not_there_is_named(bench) -> None:
    bench.write("a.parquet", b"x")
    with pytest.raises(SourceError, match=r"source of 2026-01-06, .*day=2026-01-06, holds no parquet data"):
        find_day(bench.settings(), dt.date(2026, 1, 6))


def test_a_day_of_empty_and_side_files_is_not_there(bench) -> None:
    bench.write("_SUCCESS", b"")
    bench.write("a.parquet", b"")
    with pytest.raises(SourceError, match=r"only _SUCCESS, a.parquet"):
        find_day(bench.settings(), DAY)
    assert list_day(bench.settings(), DAY).files == ()


def test_a_relative_path_is_refused() -> None:
    with pytest.raises(SourceError, match="not absolute"):
        find_day(SourceSettings(path="data/users", format="csv"), DAY)


def test_a_day_without_its_marker_is_not_finished(bench) -> None:
    bench.write("a.parquet", b"x")
    settings = bench.settings(success_marker="_SUCCESS")
    with pytest.raises(SourceError, match="has no _SUCCESS"):
        find_day(settings, DAY)
    bench.write("_SUCCESS", b"")
    assert len(find_day(settings, DAY).files) == 1


def test_the_digest_follows_contents_and_not_times(bench) -> None:
    path = bench.write("a.parquet", b"one")
    before = find_day(bench.settings(), DAY)
    os.utime(path, (1, 1))
    assert find_day(bench.settings(), DAY).digest == before.digest
    path.write_bytes(b"two")
    assert find_day(bench.settings(), DAY).digest != before.digest


def test_the_digest_follows_names_and_how_the_files_are_read(bench) -> None:
    bench.write("a.csv", b"one")
    before = find_day(bench.settings("csv"), DAY).digest
    assert find_day(bench.settings("csv", csv=CsvSettings(decimal=",")), DAY).digest != before
    bench.write("b.csv", b"one")
    assert find_day(bench.settings("csv"), DAY).digest != before


def test_a_source_that_moves_under_its_reader_is_named(bench) -> None:
    bench.write("a.parquet", b"one")
    found = find_day(bench.settings(), DAY)
    require_unchanged(bench.settings(), found)
    path = bench.write("b.parquet", b"late")
    with pytest.raises(SourceError, match="changed while it was read") as error:
        require_unchanged(bench.settings(), found)
    assert str(path) in str(error.value)
