"""The columns and the users that a reader asks for, before anything is read: a misspelt name is told, never left out.

A column that some published day has is known; the days from before it was exported read as nulls, as in a table whose
columns grew.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import CorruptError, DataError
from profile_assets.feature_store.offline import open_offline
from profile_assets.storage.layout import Layout
from profile_assets.storage.parquet import corrupt_errors, open_parquet
from profile_assets.storage.published import published_days
from profile_assets.storage.stages import ID_COLUMN


def wanted_fields(layout: Layout, columns: Sequence[str], parts: Iterable[Path]) -> list[pa.Field]:
    """The columns with their types, by the files that are read and, where those lack one, by any published day.

    DataError for one that no day has, or that is named twice.
    """
    if isinstance(columns, str):
        raise DataError(f"columns is the text {columns!r}", remedy=f"give a list of names: [{columns!r}]")
    twice = [name for name, times in Counter(columns).items() if times > 1]
    if twice:
        raise DataError(f"the column {twice[0]!r} is asked for twice", remedy="name it once")
    known: dict[str, pa.Field] = {}
    for schema in itertools.chain(map(_schema_of, parts), _published_schemas(layout)):
        for field in schema:
            known.setdefault(field.name, field)
        if all(name in known for name in columns):
            break
    for name in columns:
        if name not in known:
            raise _unknown(layout, name, known)
    return [known[name] for name in columns]


def present_names(schema: pa.Schema, fields: Sequence[pa.Field]) -> list[str]:
    """What to read of a file for these fields: the id where it has none of them, so that its rows are counted."""
    return [field.name for field in fields if field.name in schema.names] or [ID_COLUMN]


def filled(rows: pa.Table | pa.RecordBatch, fields: Sequence[pa.Field]) -> list[pa.Array | pa.ChunkedArray]:
    """The fields' columns of some rows, nulls where they have none."""
    names = rows.schema.names
    return [rows.column(one.name) if one.name in names else pa.nulls(rows.num_rows, one.type) for one in fields]


def checked_ids(ids: Collection[str]) -> list[str]:
    """The users that can be looked up: half a surrogate pair is nobody's id. DataError for an id that is no text."""
    if isinstance(ids, str):
        raise DataError(f"the ids are the one text {ids!r}", remedy=f"give a list of ids: [{ids!r}]")
    for user in ids:
        if not isinstance(user, str):
            raise DataError(
                f"the id {user!r} is {type(user).__name__}, and ids are text", remedy="look it up as text, as it landed"
            )
    return [user for user in ids if _is_unicode(user)]


def _is_unicode(user: str) -> bool:
    try:
        user.encode()
    except UnicodeEncodeError:
        return False
    return True


def _schema_of(part: Path) -> pa.Schema:
    with corrupt_errors(part), open_parquet(part) as file:
        return file.schema_arrow


def _published_schemas(layout: Layout) -> Iterator[pa.Schema]:
    """Those of all published days, the newest first. A damaged day is for whoever reads that day."""
    table = open_offline(layout)
    for day in reversed(published_days(layout)):
        part = table.part(day)
        if part is not None:
            with contextlib.suppress(CorruptError):
                yield _schema_of(part)


def _unknown(layout: Layout, name: str, known: Collection[str]) -> DataError:
    near = difflib.get_close_matches(str(name), known, n=2)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {', '.join(known)}"
    return DataError(
        f"no day of {layout.name} has a column {name!r}; {hint}", remedy="correct the name, or export the column"
    )
