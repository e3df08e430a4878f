"""The years 1 to 9999: what Python, pandas and databases can hold of the days and instants that Arrow can.

A time outside of them lands nowhere: readers would fail on the whole day for the sake of one row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.users.faults import keep_where

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 1 January of the year 1, 31 December 9999
_DAY_MICROS = 86_400_000_000


def in_calendar(values: pa.Array) -> pa.Array:
    """Days (date32) or instants (microseconds), those of other years null, such as a database's "infinity"."""
    is_days = pa.types.is_date32(values.type)
    first, last = (_FIRST_DAY, _LAST_DAY) if is_days else (_FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1)
    numbers = values.view(pa.int32() if is_days else pa.int64())
    return keep_where(pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last)), values)
