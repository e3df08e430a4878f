"""Keys in the path of a file: compared with the column of their name, or standing in for it."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from profile_assets.errors import ContractError
from profile_assets.users.contract import Column
from profile_assets.users.path_keys import keys_in


def test_keys_are_read_as_hive_writes_them() -> None:
    folders = ["day=2026-01-05", "city=Sao%20Paulo", "plan=__HIVE_DEFAULT_PARTITION__", "plain", "=x", "a=b=c", "e="]
    assert dict(keys_in(folders)) == {
        "day": "2026-01-05",
        "city": "Sao Paulo",
        "plan": None,
        "a": "b=c",
        "e": "",
    }


@pytest.mark.parametrize("file_format", ["parquet", "csv", "ndjson"])
def test_a_value_in_the_rows_that_is_not_the_paths_is_set_aside(bench, contract, file_format) -> None:
    content = {
        "csv": "uid,country\na,de\nb,fr\nc,de\n",
        "ndjson": '{"uid": "a", "country": "de"}\n{"uid": "b", "country": "fr"}\n{"uid": "c", "country": "de"}\n',
    }
    if file_format == "parquet":
        bench.write("country=de/a.parquet", b"x")
        bench.parquet({"uid": ["a", "b", "c"], "country": ["de", "fr", "de"]}, "country=de/a.parquet")
    else:
        bench.write(f"country=de/a.{file_format}", content[file_format])
    landed = bench.land(contract(country="string"), file_format)
    assert landed.ids == ["a", "c"]
    assert landed.facts["reasons"] == {"country: not the value in its path": 1}


def test_a_key_is_compared_though_the_contract_does_not_know_it(bench, contract) -> None:
    bench.write("hour=07/x", b"")
    bench.parquet({"uid": ["a", "b"], "hour": pa.array([7, 8], pa.int8())}, "hour=07/a.parquet")
    assert bench.land(contract()).ids == ["a"]


def test_a_column_that_stands_in_the_path_alone_lands_from_there(bench, contract) -> None:
    for country in ("de", "fr", "__HIVE_DEFAULT_PARTITION__"):
        bench.write(f"country={country}/hour=7/x", b"")
        bench.parquet({"uid": [country]}, f"country={country}/hour=7/a.parquet")
    landed = bench.land(contract(country="string", hour="int8", day="date"))
    assert sorted(landed.users.to_pylist(), key=lambda row: row["user_id"]) == [
        {"user_id": "__HIVE_DEFAULT_PARTITION__", "country": None, "hour": 7, "day": dt.date(2026, 1, 5)},
        {"user_id": "de", "country": "de", "hour": 7, "day": dt.date(2026, 1, 5)},
        {"user_id": "fr", "country": "fr", "hour": 7, "day": dt.date(2026, 1, 5)},
    ]


def test_a_value_from_the_path_obeys_the_contract(bench, contract) -> None:
    for country in ("de", "xx"):
        bench.write(f"country={country}/x", b"")
        bench.parquet({"uid": [country]}, f"country={country}/a.parquet")
    landed = bench.land(contract(country=Column(name="country", type=pa.string(), values=("de",))))
    assert (landed.ids, landed.facts["reasons"]) == (["de"], {"country: not one of the values": 1})


def test_hives_null_is_compared_with_null(bench, contract) -> None:
    bench.write("plan=__HIVE_DEFAULT_PARTITION__/x", b"")
    bench.parquet({"uid": ["a", "b"], "plan": [None, "gold"]}, "plan=__HIVE_DEFAULT_PARTITION__/a.parquet")
    assert bench.land(contract(plan="string")).ids == ["a"]


def test_a_column_that_cannot_hold_the_paths_value_is_refused_by_name(bench, contract) -> None:
    bench.write("country=de/x", b"")
    bench.parquet({"uid": ["a"], "country": [49]}, "country=de/a.parquet")
    with pytest.raises(ContractError, match="column 'country' is int64, and cannot be compared with the country"):
        bench.land(contract())


def test_folders_above_the_source_are_no_keys(tmp_path, contract) -> None:
    from profile_assets.storage.layout import Layout
    from profile_assets.users.land import land
    from profile_assets.users.source import SourceSettings

    folder = tmp_path / "env=prod" / "2026-01-05"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("uid,env\na,test\n")
    settings = SourceSettings(path=f"{tmp_path}/env=prod/{{day}}", format="csv")
    staged = land(settings, contract(env="string"), dt.date(2026, 1, 5), Layout(root=tmp_path, name="p"))
    assert staged.manifest.rows == 1


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"uid": ["a"]}, "column 'country' .string. is missing; did you mean 'Country'"),
        ({"uid": ["a"], "country": ["fr"]}, "column 'country' has a twin that differs by case only: 'Country'"),
    ],
)
def test_a_key_that_is_a_column_but_for_case_is_told(bench, contract, columns, told) -> None:
    bench.write("Country=de/x", b"")
    bench.parquet(columns, "Country=de/a.parquet")
    with pytest.raises(ContractError, match=told):
        bench.land(contract(country="string"))
