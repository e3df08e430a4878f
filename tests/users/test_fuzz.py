"""Damaged and odd source files, by the thousand: each lands with its sums closed, or fails with one of our errors.

`pytest --fuzz-files 100000` tries more of them. Every file follows from its number alone, so that a failure can be
played again.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import PermanentError
from profile_assets.users.contract import Column, Contract, parse_type

CHUNKS = 10
TYPES = {
    "n": "int16", "f": "float32", "d": "decimal(8,2)", "s": "string", "b": "bool", "born": "date",
    "seen": "timestamp", "v": "list<float32,2>",
}  # fmt: skip


def declared(file_format: str) -> Contract:
    types = {name: kind for name, kind in TYPES.items() if file_format == "parquet" or name != "v"}
    columns = tuple(Column(name=name, type=parse_type(kind), required=False) for name, kind in types.items())
    return Contract(id="uid", columns=columns, max_quarantine_rate=1.0)


def parquet_seed(dice: random.Random) -> bytes:
    """A whole Parquet file of a few rows, written in one of the ways that writers have."""
    rows = dice.choice([0, 1, 5, 40])
    table = pa.table(
        {
            "uid": pa.array([f"u{dice.randrange(30)}" for _ in range(rows)], pa.string()),
            "n": pa.array([dice.randrange(-(2**15), 2**15) for _ in range(rows)], pa.int16()),
            "f": pa.array([dice.gauss(0, 1) for _ in range(rows)], pa.float32()),
            "d": pa.array([Decimal(dice.randrange(10**6)) / 100 for _ in range(rows)], pa.decimal128(8, 2)),
            "s": pa.array([dice.choice(["a", "bé", None]) for _ in range(rows)], pa.string()),
            "b": pa.array([dice.choice([True, False, None]) for _ in range(rows)], pa.bool_()),
            "born": pa.array([dice.randrange(20_000) for _ in range(rows)], pa.int32()).view(pa.date32()),
            "seen": pa.array([dice.randrange(10**15) for _ in range(rows)], pa.int64()).view(pa.timestamp("us", "UTC")),
            "v": pa.array([[1.0, 2.0] for _ in range(rows)], pa.list_(pa.float32(), 2)),
        }
    )
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression=dice.choice(["none", "snappy", "zstd", "gzip"]),
        use_dictionary=dice.random() < 0.5,
        write_page_checksum=dice.random() < 0.3,
        data_page_version=dice.choice(["1.0", "2.0"]),
        row_group_size=dice.choice([7, 1000]),
    )
    return out.getvalue()


def csv_seed(dice: random.Random) -> bytes:
    """A CSV of a few rows, with the habits of several writers."""
    end, mark = dice.choice(["\n", "\r\n"]), dice.choice(["", "\ufeff"])
    cells = ["u1", "", "NA", "7", "1.5", "-3,2", '"a ""b"""', "true", "2026-01-05", "2026-01-05T10:00:00Z", "é", "1e9"]
    lines = ["uid,n,f,d,s,b,born,seen"]
    for number in range(dice.choice([0, 1, 5, 40])):
        lines.append(",".join([f"u{number}", *(dice.choice(cells) for _ in range(7))]))
    return (mark + end.join(lines) + dice.choice(["", end])).encode()


def mutated(data: bytes, dice: random.Random) -> bytes:
    """The bytes with one to four things done to them: bits turned, bytes cut out, doubled, moved, overwritten."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(out) + 1)
        if dice.random() < 0.3:
            start = max(0, len(out) - dice.randint(1, 200))  # where Parquet keeps its footer
        _mutate(out, start, min(len(out), start + dice.choice([1, 1, 2, 4, 8, 64])), dice)
    return bytes(out) or b"x"


def _mutate(out: bytearray, start: int, end: int, dice: random.Random) -> None:
    part = bytes(out[start:end])
    out[start:end] = dice.choice(
        [
            b"",
            part * 2,
            bytes(byte ^ 1 << dice.randrange(8) for byte in part),
            bytes(dice.randrange(256) for _ in part),
            dice.choice([b"\0", b"\xff", b'"', b"\r", b"PAR1", b"\x80\x80\x80\x01", b","]),
        ]
    )
    if dice.random() < 0.1:
        del out[start:]


def outcome(bench, name: str, file_format: str, data: bytes) -> str:
    """How the landing of one file ends. Anything but a landing with closed sums or an error of ours is raised."""
    for old in bench.folder().iterdir():
        old.unlink()
    bench.write(name, data)
    try:
        landed = bench.land(declared(file_format), file_format)
    except PermanentError as error:
        if not (error.remedy and (name in str(error) or "2026-01-05" in str(error))):
            raise AssertionError(f"names neither the file nor the day: {error}") from error
        return type(error).__name__
    facts = landed.facts
    assert facts["read"] == facts["kept"] + facts["quarantined"]
    assert len(landed.ids) == len(set(landed.ids)) == facts["kept"]
    assert len(landed.quarantine) == facts["quarantined"] == sum(facts["reasons"].values())
    return "landed"


FORMATS: dict[str, Callable[[random.Random], bytes]] = {"parquet": parquet_seed, "csv": csv_seed}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_damaged_file_lands_whole_or_is_refused_by_name(
    bench, file_format: str, chunk: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    files = request.config.getoption("--fuzz-files") // (2 * CHUNKS)
    outcomes = set()
    for number in range(chunk * files, (chunk + 1) * files):
        dice = random.Random(f"{file_format} {number}")
        data = mutated(FORMATS[file_format](dice), dice)
        (tmp_path / "last").write_bytes(data)  # what is left to look at after a crash
        try:
            outcomes.add(outcome(bench, f"f{number}.{file_format}", file_format, data))
        except Exception as error:
            error.add_note(f"file {number} of the {file_format} fuzz: {data!r}")
            raise
    assert "landed" in outcomes
