"""The fields of the profile file about tables that come in: source, contract, labels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from profile_assets.profile.part import Part, Variable
from profile_assets.users.contract import parse_type
from profile_assets.users.source import parse_ready


def _known_type(text: str) -> str:
    parse_type(text)
    return text


def _known_ready(text: str) -> str:
    parse_ready(text)
    return text


def _one_byte(mark: str) -> str:
    if len(mark.encode()) != 1 or mark in '"\r\n\0':
        raise ValueError("must be one character of ASCII, and neither a quote nor a line end")
    return mark


_Mark = Annotated[str, AfterValidator(_one_byte)]


class Csv(Part):
    """How numbers and nulls are written in CSV; everything is read as text and cast by the contract."""

    delimiter: _Mark = Field(",", description="the character between fields")
    decimal: _Mark = Field(".", description="the decimal mark")
    thousands: str | None = Field(None, min_length=1, max_length=1, description="the digit group mark, if there is one")
    null_values: tuple[str, ...] = Field(("",), description="unquoted texts that mean null; never applied to the id")


class Source(Part):
    """Where the users of a day lie: files (path), or a table in a database (query and url_env)."""

    path: str = Field("", description="a folder with {day} in it, or a hive table's root; under PROFILE_DATA, or s3://")
    format: Literal["parquet", "csv", "ndjson"] = Field("parquet", description="parquet, csv or ndjson")
    hive_key: str = Field("day", description="the key of the hive folders, for a path without {day}")
    csv: Csv = Field(Csv(), description="how CSV is written")
    query: str | None = Field(None, description="SQL that gives the users of :day, instead of path; :day is a date")
    url_env: Variable | None = Field(
        None, description="the environment variable with the database's URL: postgresql:// or sqlite:////"
    )
    ready: Annotated[str, AfterValidator(_known_ready)] = Field(
        "none", description='what a day waits for: "_SUCCESS" in its folder, "stable_for 5m" (nothing changed), "none"'
    )
    watch_days: int = Field(14, ge=0, description="newest published days whose source is compared with what landed")
    s3_endpoint: str | None = Field(None, description="the address of an S3 server other than AWS's")


class ContractColumn(Part):
    """One column that the users table promises."""

    name: str = Field(min_length=1, description="the name in the source, matched exactly")
    type: Annotated[str, AfterValidator(_known_type)] = Field(
        description="string, bool, int8 to int64, float32, float64, date, timestamp, decimal(p,s), list<type>"
    )
    required: bool = Field(True, description="the day fails where the column is missing; else it lands as nulls")
    max_null_rate: float = Field(1.0, ge=0, le=1, description="allowed share of missing values, over all rows")
    minimum: int | float | None = Field(None, description="rows below go to quarantine")
    maximum: int | float | None = Field(None, description="rows above go to quarantine")
    values: tuple[str, ...] | None = Field(None, description="rows with any other text go to quarantine")
    zoneless_is_utc: bool = Field(False, description="times without a zone are UTC; else they are refused")
    personal: bool = Field(False, description="values are hashed wherever examples are shown")


class ContractTable(Part):
    """What the users table promises, and what happens to rows that break the promise."""

    id: str = Field(min_length=1, description="the column that identifies a user: text or an exact integer")
    keep: Literal["first", "last"] = Field("first", description="which row of a user that stands twice is kept")
    max_quarantine_rate: float = Field(0.01, ge=0, le=1, description="above this share of rows set aside the day fails")
    columns: tuple[ContractColumn, ...] = Field(min_length=1, description="every other column that is wanted")


class Labels(Part):
    """What came true of each user, once it is known: files (path), or a table in a database (query and url_env)."""

    path: str = Field("", description="a folder with {day} in it, or a hive table's root; under PROFILE_DATA, or s3://")
    format: Literal["parquet", "csv", "ndjson"] = Field("parquet", description="parquet, csv or ndjson")
    query: str | None = Field(None, description="SQL that gives the labels of :day, instead of path; :day is a date")
    url_env: Variable | None = Field(None, description="the environment variable with the database's URL")
    key: str = Field(description="the column with the user's id")
    column: str = Field(description="the column with the label, 0 or 1")
    horizon_days: int = Field(ge=1, description="days after the day that the label looks at")
    hive_key: str = Field("day", description="the key of the hive folders, for a path without {day}")
    csv: Csv = Field(Csv(), description="how CSV is written")
    s3_endpoint: str | None = Field(None, description="the address of an S3 server other than AWS's")
