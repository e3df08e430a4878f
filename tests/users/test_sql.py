"""A table in a database as a source: exact, in one snapshot, the day bound; and the URL in no message.

What both databases must do runs over both.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import sqlite3
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest

from profile_assets.errors import ContractError, ProfileAssetsError, SourceError, StorageError
from profile_assets.users import labels
from profile_assets.users import postgres as postgres_room
from profile_assets.users import sqlite as sqlite_room
from profile_assets.users.labels import LabelSettings
from profile_assets.users.land import clean_batches, land
from profile_assets.users.source import SourceSettings, SqlSettings
from profile_assets.users.taking import sighted, source_digest

DAY = dt.date(2026, 1, 5)
NEXT = dt.date(2026, 1, 6)
LARGE = 9_223_372_036_854_775_807
QUERY = "select * from users where day = :day"


@dataclass(frozen=True, kw_only=True)
class Database:
    """A database to fill, and the source that reads it."""

    name: str
    run: Callable[..., None]
    bench: Any

    def settings(self, query: str = QUERY) -> SourceSettings:
        copies = self.bench.layout.scratch("queries")
        return SourceSettings(path="", format="sql", sql=SqlSettings(query=query, url_env="USERS_DB", copies=copies))

    def land(self, contract: Any, query: str = QUERY, day: dt.date = DAY) -> Any:
        landed = land(self.settings(query), contract, day, self.bench.layout)
        aside = pq.read_table(self.bench.layout.staging("quarantine", day) / "rows.parquet").to_pylist()
        return pq.read_table(landed.folder / "users.parquet").to_pylist(), aside, landed.manifest

    def rows(self, columns: str, rows: Sequence[str], table: str = "users") -> None:
        self.run(f"create table {table} ({columns})")
        if rows:
            self.run(f"insert into {table} values {', '.join(rows)}")


@pytest.fixture
def sqlite(bench, tmp_path, monkeypatch) -> Database:
    path = tmp_path / "our users.db"
    monkeypatch.setenv("USERS_DB", f"sqlite:///{path}".replace(" ", "%20"))

    def run(*statements: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    run("create table unused (x)")
    return Database(name="sqlite", run=run, bench=bench)


@pytest.fixture
def server(bench, request, monkeypatch) -> Database:
    """PostgreSQL, with an empty schema."""
    import adbc_driver_postgresql.dbapi as driver

    url = request.getfixturevalue("postgres")
    monkeypatch.setenv("USERS_DB", url)

    def run(*statements: str) -> None:
        with driver.connect(url) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    run("drop schema public cascade", "create schema public")
    return Database(name="postgres", run=run, bench=bench)


@pytest.fixture(params=["sqlite", pytest.param("server", marks=pytest.mark.service("postgres"))])
def database(request) -> Database:
    return request.getfixturevalue(request.param)


def test_the_days_rows_land_exactly(database, contract) -> None:
    database.rows(
        "uid bigint, day date, spend numeric(12,2), visits int, plan text",
        [
            f"({LARGE}, '{DAY}', 19.99, 3, 'gold')",
            f"({2**53 + 1}, '{DAY}', 0.1, null, null)",
            f"(1, '{NEXT}', 1, 1, '')",
        ],
    )
    users, aside, manifest = database.land(contract(spend="decimal(12,2)", visits="int16", plan="string"))
    assert sorted(users, key=lambda row: row["user_id"]) == [
        {"user_id": str(2**53 + 1), "spend": Decimal("0.10"), "visits": None, "plan": None},
        {"user_id": str(LARGE), "spend": Decimal("19.99"), "visits": 3, "plan": "gold"},
    ]
    assert aside == []
    assert manifest.facts["sources"] == [{"file": "query", "rows": 2}]
    assert manifest.facts["extra_columns"] == ["day"]
    assert not list(database.bench.layout.scratch("queries").iterdir())


def test_neighbours_that_one_float_would_merge_stay_two_users(database, contract) -> None:
    database.rows("uid bigint, day date", [f"({2**53 + n}, '{DAY}')" for n in range(3)])
    assert [row["user_id"] for row in database.land(contract())[0]] == [str(2**53 + n) for n in range(3)]


def test_rows_that_break_a_rule_are_set_aside_with_their_number(database, contract) -> None:
    database.rows("uid text, day date, n int", [f"('a', '{DAY}', 1)", f"(null, '{DAY}', 2)", f"('b', '{DAY}', 900)"])
    users, aside, _ = database.land(contract(n="int8"), QUERY + " order by n")
    assert [row["user_id"] for row in users] == ["a"]
    assert [(row["reason"], row["row"], row["file"]) for row in aside] == [
        ("uid: null", 2, "query"),
        ("n: not int8", 3, "query"),
    ]


def test_a_user_who_stands_twice_is_kept_by_the_querys_order(database, contract) -> None:
    database.rows("uid text, day date, n int", [f"('a', '{DAY}', {n})" for n in (3, 1, 2)])
    assert [row["n"] for row in database.land(contract(n="int64", keep="last"), QUERY + " order by n")[0]] == [3]


def test_the_same_rows_land_the_same_whatever_their_order(database, contract) -> None:
    database.rows("uid text, day date, n int", [f"('{n}', '{DAY}', {n})" for n in (3, 1, 2)])
    first = database.land(contract(n="int64"))[2]
    database.run(
        "create table other as select * from users order by n", "drop table users", "alter table other rename to users"
    )
    assert database.land(contract(n="int64"))[2].digest == first.digest


def test_the_digest_follows_the_rows_and_nothing_else(database, contract) -> None:
    database.rows("uid text, day date, n int", [f"('a', '{DAY}', 1)", f"('b', '{DAY}', 2)", f"('c', '{NEXT}', 3)"])
    landed, declared = database.land(contract(n="int64"))[2], contract(n="int64")
    assert source_digest(database.settings(), declared, DAY) == landed.made_from["source"]
    database.run(f"update users set n = 4 where day = '{NEXT}'")
    assert source_digest(database.settings(), declared, DAY) == landed.made_from["source"]
    database.run("update users set n = 2 where uid = 'a'")
    assert source_digest(database.settings(), declared, DAY) != landed.made_from["source"]


def test_a_day_without_rows_is_not_there(database, contract) -> None:
    database.rows("uid text, day date", [f"('a', '{DAY}')"])
    now = dt.datetime(2026, 1, 7, tzinfo=dt.UTC)
    seen = sighted(database.settings(), DAY, now)
    assert (seen.waits_for, seen) == (None, sighted(database.settings(), DAY, now))
    database.run(f"insert into users values ('b', '{DAY}')")
    assert sighted(database.settings(), DAY, now).digest != seen.digest
    assert sighted(database.settings(), NEXT, now).waits_for == "has no rows"
    with pytest.raises(SourceError, match=r"\$USERS_DB gave no row for 2026-01-06"):
        database.land(contract(), day=NEXT)


def test_everything_wrong_with_the_columns_is_told_at_once(database, contract) -> None:
    database.rows("uid double precision, day date, plam text, n text", [f"(1.5, '{DAY}', 'a', 'x')"])
    with pytest.raises(ContractError) as error:
        database.land(contract(plan="string", n="int64"))
    for told in ("id column 'uid': ids are double", "did you mean 'plam'", "'n' is string", "the query on $USERS_DB"):
        assert told in str(error.value)


def test_a_column_that_the_query_gives_twice_is_refused(database, contract) -> None:
    database.rows("uid text, day date, n int", [f"('a', '{DAY}', 1)"])
    with pytest.raises(ContractError, match="'n' stands there 2 times"):
        database.land(contract(n="int64"), "select uid, n, n + 1 as n from users where day = :day")


def test_a_missing_id_is_told_with_what_is_there(database, contract) -> None:
    database.rows("id text, day date", [f"('a', '{DAY}')"])
    with pytest.raises(ContractError, match=r"'uid' \(the id\) is missing; did you mean 'id'"):
        database.land(contract())


def test_a_query_that_the_database_refuses_is_named(database, contract) -> None:
    with pytest.raises(SourceError, match=r"refused source.query: .*nowhere"):
        database.land(contract(), "select * from nowhere where day = :day")


def test_a_query_cannot_write(database, contract) -> None:
    database.rows("uid text, day date", [f"('a', '{DAY}')"])
    for query in ("delete from users where day = :day", "delete from users where day = :day returning uid"):
        with pytest.raises(SourceError):
            database.land(contract(), query)
    assert len(database.land(contract())[0]) == 1


def test_quotes_casts_comments_and_a_semicolon_are_left_alone(database, contract) -> None:
    database.rows("uid text, day date", [f"('a:day', '{DAY}')", f"('b', '{DAY}')"])
    query = "select uid -- the id of :day\n from users /* :day */ where day = :day and uid = 'a:day';"
    assert [row["user_id"] for row in database.land(contract(), query)[0]] == ["a:day"]


def test_many_rows_come_in_batches(database, contract, monkeypatch) -> None:
    monkeypatch.setattr(postgres_room, "FETCH_ROWS", 7)
    monkeypatch.setattr(sqlite_room, "FETCH_ROWS", 7)
    database.rows("uid text, day date, n int", [f"('u{n:03d}', '{DAY}', {n})" for n in range(100)])
    users, _, _ = database.land(contract(n="int64"))
    assert [row["n"] for row in users] == list(range(100))


def test_the_batches_for_training_are_the_rows_that_would_land(database, contract) -> None:
    database.rows("uid text, day date, n int", [f"('a', '{DAY}', 1)", f"('a', '{DAY}', 1)", f"(null, '{DAY}', 1)"])
    rows = [row for batch in clean_batches(database.settings(), contract(n="int8"), DAY) for row in batch.to_pylist()]
    assert rows == database.land(contract(n="int8"))[0] == [{"user_id": "a", "n": 1}]


@pytest.mark.parametrize("kind", ["int", "boolean"])
def test_labels_come_from_a_query_too(database, kind) -> None:
    yes, no = ("true", "false") if kind == "boolean" else ("1", "0")
    database.rows(f"uid text, day date, bought {kind}", [f"('a', '{DAY}', {yes})", f"('b', '{DAY}', {no})"])
    settings = LabelSettings(
        path="", format="sql", key="uid", column="bought", horizon_days=1, sql=database.settings().sql
    )
    assert labels.read_labels(settings, DAY).to_pylist() == [
        {"user_id": "a", "label": 1.0},
        {"user_id": "b", "label": 0.0},
    ]


# --- what only PostgreSQL has -------------------------------------------------------------------


@pytest.mark.service("postgres")
def test_every_type_of_a_server_lands_as_declared(server, contract) -> None:
    server.run(
        "create type mood as enum ('fine')",
        f"""create table users as select 'a' as uid, date '{DAY}' as day, 12345678901234567890123456.78::numeric as big,
        1.5::numeric(6,2) as small, sum(1::bigint) as total, 2.5::real as f, true as b, null::bool as nb,
        timestamptz '2026-01-05 12:00+02' as at, date '2020-02-29' as born, array[1.5, 2]::real[] as vector,
        'fine'::mood as mood, '11111111-2222-3333-4444-555555555555'::uuid as device, '{{"a": 1}}'::json as j,
        interval '1 day' as span, 'x'::varchar(3) as v""",
    )
    declared = contract(
        big="decimal(38,2)", small="decimal(8,2)", total="int32", f="float64", b="bool", nb="bool", at="timestamp",
        born="date", vector="list<float32,2>", mood="string", device="string", j="string", v="string",
    )  # fmt: skip
    users, aside, manifest = server.land(declared)
    assert aside == []
    assert users == [
        {
            "user_id": "a", "big": Decimal("12345678901234567890123456.78"), "small": Decimal("1.50"), "total": 1,
            "f": 2.5, "b": True, "nb": None, "at": dt.datetime(2026, 1, 5, 10, tzinfo=dt.UTC),
            "born": dt.date(2020, 2, 29), "vector": [1.5, 2.0], "mood": "fine",
            "device": "11111111-2222-3333-4444-555555555555", "j": '{"a": 1}', "v": "x",
        }
    ]  # fmt: skip
    assert manifest.facts["extra_columns"] == ["day", "span"]


@pytest.mark.service("postgres")
@pytest.mark.parametrize("kind", ["numeric", "numeric(20,0)", "uuid", "bigint", "smallint"])
def test_ids_of_a_servers_exact_types_are_ids(server, contract, kind) -> None:
    value = "'11111111-2222-3333-4444-555555555555'" if kind == "uuid" else "7"
    server.rows(f"uid {kind}, day date", [f"({value}, '{DAY}')", f"(null, '{DAY}')"])
    users, aside, _ = server.land(contract())
    assert [row["user_id"] for row in users] == [value.strip("'")]
    assert [row["reason"] for row in aside] == ["uid: null"]


@pytest.mark.service("postgres")
@pytest.mark.parametrize("value", ["1.5", "'NaN'"])
def test_a_numeric_id_that_is_not_whole_is_refused_naming_its_row(server, contract, value) -> None:
    server.rows("uid numeric, day date", [f"(1, '{DAY}')", f"({value}, '{DAY}')"])
    with pytest.raises(ContractError, match=r"'uid' are no whole numbers; row 2 has"):
        server.land(contract())


@pytest.mark.service("postgres")
def test_a_numeric_that_is_no_number_and_a_day_without_end_are_set_aside(server, contract) -> None:
    server.rows(
        "uid text, day date, n numeric, born date, seen timestamptz",
        [f"('a', '{DAY}', 'NaN', null, null)", f"('b', '{DAY}', 1, 'infinity', null)",
         f"('c', '{DAY}', 1, '-infinity', null)", f"('d', '{DAY}', 1, null, 'infinity')",
         f"('e', '{DAY}', 1, null, '-infinity')", f"('f', '{DAY}', 1, '2026-01-01', '2026-01-01 00:00Z')"],
    )  # fmt: skip
    users, aside, _ = server.land(contract(n="decimal(6,2)", born="date", seen="timestamp"))
    assert [row["user_id"] for row in users] == ["f"]
    assert [row["reason"] for row in aside] == [
        "n: not decimal(6,2)", "born: not date", "born: not date", "seen: not timestamp", "seen: not timestamp",
    ]  # fmt: skip


@pytest.mark.service("postgres")
def test_a_server_time_without_a_zone_is_refused(server, contract) -> None:
    server.rows("uid text, day date, seen timestamp", [f"('a', '{DAY}', '2026-01-05 12:00')"])
    with pytest.raises(ContractError, match="'seen' is a time without a zone"):
        server.land(contract(seen="timestamp"))


@pytest.mark.service("postgres")
def test_a_day_that_meets_text_needs_a_cast_and_the_error_says_so(server, contract) -> None:
    server.rows("uid text, day text", [f"('a', '{DAY}')"])
    with pytest.raises(SourceError, match=r"(?s)operator does not exist.*:day::text"):
        server.land(contract())
    assert len(server.land(contract(), "select * from users where day = :day::text")[0]) == 1


@pytest.mark.service("postgres")
def test_the_rows_are_those_of_one_moment(server, monkeypatch) -> None:
    """Rows written while the copy is made are of the next one."""
    monkeypatch.setattr(postgres_room, "FETCH_ROWS", 10)
    server.rows("uid int, day date", [f"({n}, '{DAY}')" for n in range(100)])
    with postgres_room.postgres_query(server.settings().sql, DAY) as query:
        batches = query.batches(["uid"], "uid")
        seen = next(batches).num_rows
        server.run(f"insert into users values (1000, '{DAY}')", "delete from users where uid < 50")
        assert seen + sum(batch.num_rows for batch in batches) == 100


# --- what only SQLite has -----------------------------------------------------------------------


def test_values_of_another_type_in_a_column_cost_their_own_rows(sqlite, contract) -> None:
    sqlite.rows(
        "uid, day, n, b, d, s, t",
        [f"('a', '{DAY}', 1, 1, 19.99, 'x', '2026-01-05T12:00:00Z')", f"('b', '{DAY}', 'two', 0, 5, 'y', null)",
         f"('c', '{DAY}', 2.5, 7, '1.25', x'ff', 12)", f"('d', '{DAY}', null, 'true', 123456789012345.67, 3, 'x')"],
    )  # fmt: skip
    declared = contract(n="int64", b="bool", d="decimal(20,2)", s="string", t="timestamp")
    users, aside, _ = sqlite.land(declared, QUERY + " order by uid")
    assert users == [
        {"user_id": "a", "n": 1, "b": True, "d": Decimal("19.99"), "s": "x",
         "t": dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)},
    ]  # fmt: skip
    assert sorted((row["row"], row["reason"]) for row in aside) == [
        (2, "n: not int64"),
        (3, "row: 's' is not UTF-8"),
        (4, "b: not bool"),
    ]


def test_a_decimal_stored_as_a_float_is_taken_only_with_all_its_digits(sqlite, contract) -> None:
    numbers = ["0.1", "123456789012345.67", "2.0", "0.1 + 0.2", "1e300"]
    sqlite.rows("uid text, day text, d real", [f"('{n}', '{DAY}', {value})" for n, value in enumerate(numbers)])
    users, aside, _ = sqlite.land(contract(d="decimal(20,2)"))
    assert [(row["user_id"], row["d"]) for row in users] == [("0", Decimal("0.10")), ("2", Decimal("2.00"))]
    assert [row["reason"] for row in aside] == ["d: not decimal(20,2)"] * 3


@pytest.mark.parametrize("odd", ["'007'", "7.5", "x'00'"])
@pytest.mark.parametrize("fetch_rows", [1, 1000])
def test_ids_of_two_kinds_are_refused_naming_the_first_odd_row(sqlite, contract, monkeypatch, odd, fetch_rows) -> None:
    monkeypatch.setattr(sqlite_room, "FETCH_ROWS", fetch_rows)
    sqlite.rows("uid, day, n", [f"(7, '{DAY}', 1)", f"(null, '{DAY}', 2)", f"({odd}, '{DAY}', 3)"])
    with pytest.raises(ContractError, match=r"the ids in 'uid' are of two kinds; row 3 has .*, and row 1 7"):
        sqlite.land(contract(), QUERY + " order by n")


def test_a_column_of_nulls_and_one_of_whole_and_broken_numbers(sqlite, contract) -> None:
    sqlite.rows("uid text, day text, x, y", [f"('a', '{DAY}', null, 1)", f"('b', '{DAY}', null, 1.5)"])
    users, _, _ = sqlite.land(contract(x="string", y="float32"))
    assert users == [{"user_id": "a", "x": None, "y": 1.0}, {"user_id": "b", "x": None, "y": 1.5}]


def test_a_relative_path_is_refused(sqlite, contract, monkeypatch) -> None:
    monkeypatch.setenv("USERS_DB", "sqlite:///users.db")
    with pytest.raises(SourceError, match="four slashes"):
        sqlite.land(contract())


# --- the URL is a secret ------------------------------------------------------------------------

BAD_URLS = [
    "postgresql://ursula:hunter2@127.0.0.1:9/db",
    "postgresql://ursula:hun%ter2@127.0.0.1/db",
    "postgresql://ursula:hunter2@no-such-host.invalid/db",
    "ursula hunter2",
    "mysql://ursula:hunter2@h/db",
    "sqlite:////nowhere/hunter2.db",
    "sqlite:///hunter2.db",
]


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.service("postgres")
@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_leads_nowhere_is_named_by_its_variable_alone(
    sqlite, contract, monkeypatch, caplog, capfd, url
) -> None:
    monkeypatch.setenv("USERS_DB", url)
    with caplog.at_level(logging.DEBUG), pytest.raises(ProfileAssetsError, match="USERS_DB") as error:
        sqlite.land(contract())
    told = everything_said(error.value) + caplog.text + "".join(capfd.readouterr())
    assert "hunter2" not in told
    assert "hun%ter2" not in told
    assert "ursula" not in told


@pytest.mark.service("postgres")
def test_a_server_that_is_away_is_worth_another_try_and_a_wrong_password_is_not(server, contract, monkeypatch) -> None:
    right = server.settings()
    monkeypatch.setenv("USERS_DB", os.environ["USERS_DB"].replace("pass%25word", "hunter2"))
    with pytest.raises(SourceError, match="refused the user or the password") as error:
        land(right, contract(), DAY, server.bench.layout)
    assert "hunter2" not in everything_said(error.value)
    monkeypatch.setenv("USERS_DB", "postgresql://u:hunter2@127.0.0.1:9/db")
    with pytest.raises(StorageError, match="nothing listens there"):
        land(right, contract(), DAY, server.bench.layout)


@pytest.mark.service("postgres")
def test_a_query_that_fails_shows_no_secret(server, contract) -> None:
    with pytest.raises(SourceError) as error:
        server.land(contract(), "select * from nowhere where day = :day")
    told = everything_said(error.value)
    assert "pass%word" not in told
    assert "pass%25word" not in told
    assert "ProgrammingError" not in told


def test_a_variable_that_is_not_set_is_named(sqlite, contract, monkeypatch) -> None:
    monkeypatch.delenv("USERS_DB")
    with pytest.raises(SourceError, match="environment variable USERS_DB"):
        sqlite.land(contract())
