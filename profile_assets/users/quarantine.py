"""Rows set aside: why, from which file, which row of it, and the row itself as JSON, so that someone can mend it.

Only what was read of a row is kept, no column that the contract does not know. Values of personal columns are
replaced by the first 12 hex digits of their md5. A row that could not be taken apart is kept as its line, hashed
likewise where any column is personal.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.storage.keys import KeySet, key_set_of
from profile_assets.users.clean import Cleaned
from profile_assets.users.contract import Contract

QUARANTINE = "quarantine"
SCHEMA = pa.schema([("reason", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("raw", pa.string())])
_HASH_DIGITS = 12


def key_set_of_rows(rows: pa.RecordBatch) -> KeySet:
    """Which rows these are, by file and row number: their ids may be missing or the same."""
    places = pc.binary_join_element_wise(rows.column("file"), rows.column("row").cast(pa.string()), "\0")
    return key_set_of(places)


def set_aside(cleaned: Cleaned, contract: Contract) -> pa.RecordBatch:
    """The struck and the broken rows of a batch, in SCHEMA."""
    places = np.flatnonzero(cleaned.strikes)
    rows = _shown(cleaned.raw.rows.take(pa.array(places))).to_pylist()
    personal = {column.name for column in contract.columns if column.personal}
    broken = cleaned.raw.broken
    reasons = [cleaned.reasons[strike - 1] for strike in cleaned.strikes[places].tolist()]
    numbers = cleaned.raw.numbers[places].tolist()
    raw = [_as_json(row, personal) for row in rows]
    return pa.RecordBatch.from_pydict(
        {
            "reason": reasons + [f"row: {row.reason}" for row in broken],
            "file": [cleaned.raw.file.name] * (len(rows) + len(broken)),
            "row": numbers + [row.number for row in broken],
            "raw": raw + [json.dumps({"line": hashed(row.text) if personal else row.text}) for row in broken],
        },
        schema=SCHEMA,
    )


def _shown(rows: pa.RecordBatch) -> pa.RecordBatch:
    """With times as text: Python knows only those of the years 1 to 9999."""
    columns = [array.cast(pa.string()) if pa.types.is_temporal(array.type) else array for array in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _as_json(row: dict[str, Any], personal: set[str]) -> str:
    shown = {name: hashed(value) if name in personal else _plain(value) for name, value in row.items()}
    return json.dumps(shown, ensure_ascii=False, default=str, allow_nan=False)


def hashed(value: Any) -> str | None:
    """How a personal value is shown: the first 12 hex digits of its md5."""
    if value is None:
        return None
    return hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()[:_HASH_DIGITS]


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: they are written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
