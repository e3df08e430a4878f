"""Where a landed row came from: its file and row number in the source, and the rows of the same user set aside.

Landing keeps no row numbers of the rows it keeps: the source is read again for them, its ids alone. It is also held
against the digest that landed, so that a source which was restated since is not mistaken for the one that landed.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from profile_assets.errors import ProfileAssetsError, SourceError
from profile_assets.storage.layout import QUARANTINE_FILE, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.records import Manifest
from profile_assets.users.clean import open_day
from profile_assets.users.contract import Contract
from profile_assets.users.source import SourceDay, SourceSettings
from profile_assets.users.taking import taken


def rows_set_aside(layout: Layout, contract: Contract, day: dt.date, user: str) -> list[dict[str, Any]]:
    """The rows of a user that went to quarantine: reason, file, row number."""
    path = layout.quarantine(day) / QUARANTINE_FILE
    found = []
    for batch in iter_batches(path) if path.exists() else ():
        likely = batch.filter(pc.match_substring(batch.column("raw"), json.dumps(user, ensure_ascii=False)[1:-1]))
        for row in likely.to_pylist():
            held = json.loads(row["raw"]).get(contract.id)
            if held is not None and str(held) == user:
                found.append({name: row[name] for name in ("reason", "file", "row")})
    return found


def origin(
    source: SourceSettings, contract: Contract, day: dt.date, user: str, landed: Manifest, aside: list[dict[str, Any]]
) -> dict[str, Any]:
    """The file and row number that the user's kept row has in the source; `state` says how far that can be told.

    found: the source is the one that landed; restated: it is another one now; absent: it has no such user;
    gone, unreachable: it cannot be read.
    """
    try:
        with taken(source, contract, day) as found:
            is_same = found.digest == landed.made_from.get("source")
            places = list(_places(source, contract, found, user))
    except SourceError as error:
        return {"state": "gone", "note": f"the source can no longer be read: {error.what}"}
    except ProfileAssetsError as error:
        return {"state": "unreachable", "note": f"the source could not be read: {error.what}"}
    struck = {(one["file"], one["row"]) for one in aside}
    kept = [place for place in places if place not in struck] or places
    if not kept and is_same:
        return {"state": "absent", "note": "the source has no such user"}
    if not kept:
        return {"state": "absent", "note": "the source has no such user any more: it was restated since it landed"}
    file, row = kept[-1 if contract.keep == "last" else 0]
    told = {"file": file, "row": row, "rows_of_user": len(places)}
    if is_same:
        return {"state": "found", **told, "note": ""}
    return {
        "state": "restated",
        **told,
        "note": "the source was restated since it landed: this is where the user stands in it now",
    }


def _places(source: SourceSettings, contract: Contract, found: SourceDay, user: str) -> Iterator[tuple[str, int]]:
    """Every row of a user, as file and number, in the order of the source. Of the columns only the id is read."""
    opened = open_day(source, dataclasses.replace(contract, columns=()), found)
    for cleaned in opened.cleaned():
        is_user = pc.equal(cleaned.rows.column(0), user).fill_null(False).to_numpy(zero_copy_only=False)
        for number in cleaned.raw.numbers[np.flatnonzero(is_user)].tolist():
            yield cleaned.raw.file.name, int(number)
