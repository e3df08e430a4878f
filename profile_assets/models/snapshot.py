"""Training snapshots: the users of a day beside what came true of them; and the record of what was learned from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError
from profile_assets.models.settings import Role
from profile_assets.storage.keys import key_set_of
from profile_assets.storage.stages import ID_COLUMN

LABEL = "label"


def join_labels(day: dt.date, users: pa.Table, labels: pa.Table) -> pa.Table:
    """The users of a day that have a label, in their order, with it as a last column `label` (float32, 0 or 1).

    `labels` has user_id and label. Users without one are left out; labels of others are ignored. DataError where a
    user has two labels, one is neither 0 nor 1, or nobody has any.
    """
    ids = labels.column(ID_COLUMN).combine_chunks()
    values = labels.column(LABEL).cast(pa.float32()).combine_chunks()
    _check_labels(day, ids, values)
    place = pc.index_in(users.column(ID_COLUMN).cast(ids.type), value_set=ids)
    place = place.combine_chunks() if isinstance(place, pa.ChunkedArray) else place
    known = place.is_valid()
    joined = users.filter(known).append_column(LABEL, values.take(place.drop_null()))
    if joined.num_rows == 0:
        raise DataError(
            f"none of the {users.num_rows} users of {day} has a label",
            remedy="check that labels and users write their ids alike, and that the labels are of that day",
        )
    return joined


def _check_labels(day: dt.date, ids: pa.Array, values: pa.Array) -> None:
    numbers = values.to_numpy(zero_copy_only=False)
    is_binary = (numbers == 0) | (numbers == 1)
    if not is_binary.all():
        row = int(np.argmin(is_binary))
        raise DataError(
            f"the label of user {ids[row].as_py()!r} on {day} is {values[row].as_py()!r}, neither 0 nor 1",
            remedy="write 1 where it came true and 0 where it did not, and leave out who is not known yet",
        )
    if pc.count_distinct(ids, mode="all").as_py() != len(ids) or ids.null_count:
        raise DataError(
            f"among the {len(ids)} labels of {day} some user has none or two",
            remedy="write one row a user into the labels of a day",
        )


def record_of(snapshots: Mapping[dt.date, pa.Table], role: Callable[[dt.date], Role]) -> dict[str, Any]:
    """What data_snapshot.json says: what each day was for, its rows, those labelled 1, and the digest of the ids."""
    return {
        "days": [
            {
                "day": day.isoformat(),
                "role": role(day),
                "rows": table.num_rows,
                "positives": int(pc.sum(table.column(LABEL)).as_py() or 0),
                "keys": key_set_of(table.column(ID_COLUMN)).to_json(),
            }
            for day, table in sorted(snapshots.items())
        ],
    }


def days_learned_from(data_snapshot: Mapping[str, Any]) -> set[dt.date]:
    """The days that shaped a model: all but those that it was only measured on. A day without a role counts."""
    return _days(data_snapshot, without=("report",))


def days_fitted_to(data_snapshot: Mapping[str, Any]) -> set[dt.date]:
    """Those of them that chose weights or the epoch: later days are clear of them only after the horizon."""
    return _days(data_snapshot, without=("report", "recalibration"))


def _days(data_snapshot: Mapping[str, Any], *, without: tuple[str, ...]) -> set[dt.date]:
    days = data_snapshot.get("days")
    entries = days if isinstance(days, list) else []
    return {dt.date.fromisoformat(str(entry["day"])) for entry in entries if entry.get("role") not in without}
