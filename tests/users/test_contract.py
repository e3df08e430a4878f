"""Types are spelled one way and read back; a contract that no table could keep is refused at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.users.contract import Column, Contract, parse_type, spell_type


@pytest.mark.parametrize(
    "text",
    [
        "string",
        "int8",
        "int64",
        "float32",
        "bool",
        "date",
        "timestamp",
        "decimal(12,2)",
        "list<float32>",
        "list<float64,8>",
    ],
)
def test_a_spelling_is_read_and_written_back(text: str) -> None:
    assert spell_type(parse_type(text)) == text


@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))))
def test_every_decimal_that_arrow_has_is_read(shape: tuple[int, int]) -> None:
    precision, scale = shape
    assert parse_type(f"decimal({precision}, {scale})") == pa.decimal128(precision, scale)


@pytest.mark.parametrize("text", ["str", "int", "decimal(39,2)", "decimal(2,3)", "list<string>", "list<float32,0>", ""])
def test_an_unknown_type_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"type|precision"):
        parse_type(text)


def test_the_landed_schema_has_the_id_first_then_the_columns_as_declared() -> None:
    contract = Contract(id="uid", columns=(Column(name="b", type=pa.int8()), Column(name="a", type=pa.string())))
    assert contract.schema == pa.schema([("user_id", pa.string()), ("b", pa.int8()), ("a", pa.string())])


@pytest.mark.parametrize("names", [("a", "a"), ("a", "A"), ("uid",), ("UID",), ("user_id",)])
def test_columns_that_a_reader_could_confuse_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"column|called"):
        Contract(id="uid", columns=tuple(Column(name=name, type=pa.int8()) for name in names))


@pytest.mark.parametrize(
    "bent",
    [
        {"type": pa.string(), "minimum": 0.0},
        {"type": pa.int8(), "values": ("a",)},
        {"type": pa.date32(), "zoneless_is_utc": True},
        {"type": pa.int8(), "max_null_rate": 1.5},
    ],
)
def test_a_rule_that_does_not_fit_its_type_is_refused(bent: dict) -> None:
    with pytest.raises(ValueError, match="column 'a'"):
        Column(name="a", **bent)


def test_the_digest_follows_what_lands_and_not_what_only_judges() -> None:
    def digest(**more: object) -> str:
        return Contract(id="uid", columns=(Column(name="a", type=pa.int8(), **more),)).digest

    assert digest() == digest(max_null_rate=0.1)
    assert len({digest(), digest(minimum=0.0), digest(required=False), digest(maximum=0.0)}) == 4
