"""Profiles and labels of the CDNOW customers: 23,570 of them, 69,659 purchases, 1997-01-01 to 1998-06-30.

All days here are those of the original file. A profile of a day is made of the purchases up to the end of that day
and of nothing later; a label of a day is known once the thirtieth day after it has ended. A day's table holds
whoever has bought at least once by then. No column depends on the weekday or the calendar date, so that the whole
history may be moved by any number of days. The file comes with the `lifetimes` package, which is never imported.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import DataError, SourceError
from profile_assets.storage.stages import ID_COLUMN

FIRST_DAY = dt.date(1997, 1, 1)
LAST_DAY = dt.date(1998, 6, 30)
HORIZON_DAYS = 30
LABEL_COLUMN = "buys_30d"

MONEY = pa.decimal128(12, 2)
PROFILE_SCHEMA = pa.schema(
    [
        pa.field(ID_COLUMN, pa.string(), nullable=False),
        ("tenure_days", pa.int32()),
        ("recency_days", pa.int32()),
        ("orders", pa.int32()),
        ("order_days", pa.int32()),
        ("orders_last_30d", pa.int32()),
        ("orders_last_90d", pa.int32()),
        ("orders_last_180d", pa.int32()),
        ("cds_total", pa.int32()),
        ("spend_total", MONEY),
        ("spend_max", MONEY),
        ("spend_last_90d", MONEY),
        ("spend_mean", pa.float64()),
        ("days_between_orders", pa.float64()),
        ("first_order_size", pa.string()),
        ("last_order_value", pa.string()),
        ("order_pace", pa.string()),
    ]
)
LABEL_SCHEMA = pa.schema(
    [pa.field(ID_COLUMN, pa.string(), nullable=False), pa.field(LABEL_COLUMN, pa.int8(), nullable=False)]
)

_FIRST_SIZES = ("one_cd", "two_cds", "three_or_four_cds", "five_or_more_cds")
_LAST_VALUES = ("under_15", "15_to_25", "25_to_50", "50_or_more")
_PACES = ("single_order", "on_time", "late", "overdue")
_HEADER = ["customer_id", "date", "number_of_cds", "dollar_value"]
_REMEDY = "pip install --force-reinstall 'profile-assets[demo]'"


@dataclass(frozen=True, kw_only=True)
class Purchases:
    """One row a purchase, ordered by customer, then day. All arrays have shape (purchases,)."""

    customer: np.ndarray  # int32
    day: np.ndarray  # datetime64[D]
    cds: np.ndarray  # int64
    cents: np.ndarray  # int64

    def until(self, day: dt.date) -> Purchases:
        """The purchases up to the end of `day`."""
        known = self.day <= np.datetime64(day)
        return Purchases(
            customer=self.customer[known], day=self.day[known], cds=self.cds[known], cents=self.cents[known]
        )


def find_purchases_file(package: str = "lifetimes") -> Path:
    """Where `package` keeps CDNOW_master.txt. SourceError where it is not installed or lacks the file."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SourceError(
            f"the demo's purchases come with the package {package}, which is not installed",
            remedy="pip install 'profile-assets[demo]'",
        )
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "CDNOW_master.txt"
    if not path.is_file():
        raise SourceError(f"{path} is not there", remedy=_REMEDY)
    return path


def read_purchases(path: Path | None = None) -> Purchases:
    """Every purchase of the CDNOW file (found by itself unless named). SourceError where it is not that file."""
    path = find_purchases_file() if path is None else path
    try:
        with path.open(encoding="ascii") as lines:
            header = lines.readline().split()
            if header != _HEADER:
                raise SourceError(f"{path} starts with the columns {header}, not {_HEADER}", remedy=_REMEDY)
            rows = np.loadtxt(lines, dtype=np.float64, ndmin=2)
        customer, day, cds, dollars = rows.T
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be read: {error}", remedy=_REMEDY) from error
    order = np.lexsort((day, customer))
    return Purchases(
        customer=customer[order].astype(np.int32),
        day=_days(day[order].astype(np.int64)),
        cds=cds[order].astype(np.int64),
        cents=np.rint(dollars[order] * 100).astype(np.int64),
    )


def profile_table(purchases: Purchases, day: dt.date) -> pa.Table:
    """The profile of every customer known by the end of `day` (original calendar), in PROFILE_SCHEMA, by user id."""
    known = purchases.until(day)
    starts = _starts(known)
    counts = _counts(known, starts, day)
    gap = _days_between_orders(counts)
    columns = {
        ID_COLUMN: _user_ids(known.customer[starts]),
        **counts,
        **_spending(known, starts, day),
        "days_between_orders": pa.array(gap, mask=np.isnan(gap)),
        **_bands(known, starts, counts["recency_days"], gap),
    }
    return pa.Table.from_pydict(columns, schema=PROFILE_SCHEMA)


def label_table(purchases: Purchases, day: dt.date) -> pa.Table:
    """Whether each customer known by the end of `day` buys in the 30 days after it, in LABEL_SCHEMA, by user id.

    DataError where those 30 days reach beyond the file.
    """
    last = day + dt.timedelta(days=HORIZON_DAYS)
    if last > LAST_DAY:
        raise DataError(
            f"the labels of {day} need the purchases up to {last}, and the file ends on {LAST_DAY}",
            remedy=f"ask for labels of {LAST_DAY - dt.timedelta(days=HORIZON_DAYS)} at the latest",
        )
    known = purchases.until(day)
    customers = known.customer[_starts(known)]
    after = (purchases.day > np.datetime64(day)) & (purchases.day <= np.datetime64(last))
    buys = np.isin(customers, purchases.customer[after])
    return pa.Table.from_arrays([_user_ids(customers), pa.array(buys.astype(np.int8))], schema=LABEL_SCHEMA)


def _days(numbers: np.ndarray) -> np.ndarray:
    """19970131 as datetime64[D]."""
    months = (numbers // 10_000 - 1970) * 12 + numbers // 100 % 100 - 1
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]") + (numbers % 100 - 1))


def _starts(known: Purchases) -> np.ndarray:
    """The index of each customer's first purchase."""
    return np.flatnonzero(np.diff(known.customer, prepend=np.int32(-1)))


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum over each customer's purchases. (reduceat refuses to reduce nothing.)"""
    return np.add.reduceat(values, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)


def _lasts(known: Purchases, starts: np.ndarray) -> np.ndarray:
    """The index of each customer's last purchase."""
    return np.append(starts[1:], len(known.customer)) - 1 if len(starts) else starts


def _ages(known: Purchases, day: dt.date) -> np.ndarray:
    """How many days before the end of `day` each purchase was; 0 on the day itself."""
    return (np.datetime64(day) - known.day).astype(np.int64)


def _counts(known: Purchases, starts: np.ndarray, day: dt.date) -> dict[str, np.ndarray]:
    ages = _ages(known, day)
    is_new_day = np.diff(ages, prepend=-1) != 0
    is_new_day[starts] = True
    return {
        "tenure_days": ages[starts],
        "recency_days": ages[_lasts(known, starts)],
        "orders": _sums(np.ones_like(ages), starts),
        "order_days": _sums(is_new_day, starts),
        "orders_last_30d": _sums(ages < 30, starts),
        "orders_last_90d": _sums(ages < 90, starts),
        "orders_last_180d": _sums(ages < 180, starts),
        "cds_total": _sums(known.cds, starts),
    }


def _spending(known: Purchases, starts: np.ndarray, day: dt.date) -> dict[str, np.ndarray | pa.Array]:
    total = _sums(known.cents, starts)
    highest = np.maximum.reduceat(known.cents, starts) if len(starts) else total
    recent = _sums(np.where(_ages(known, day) < 90, known.cents, 0), starts)
    return {
        "spend_total": _money(total),
        "spend_max": _money(highest),
        "spend_last_90d": _money(recent),
        "spend_mean": total / 100 / _sums(np.ones_like(known.cents), starts),
    }


def _days_between_orders(counts: Mapping[str, np.ndarray]) -> np.ndarray:
    """The mean gap between days with an order; NaN where there is only one such day."""
    gaps = counts["order_days"] - 1
    span = counts["tenure_days"] - counts["recency_days"]
    return np.asarray(np.divide(span, gaps, out=np.full(len(gaps), np.nan), where=gaps > 0))


def _bands(known: Purchases, starts: np.ndarray, recency: np.ndarray, gap: np.ndarray) -> dict[str, pa.Array]:
    """The text columns. Pace compares the time since the last order with the customer's own usual gap."""
    waited = recency / np.maximum(gap, 1.0)
    pace = np.where(np.isnan(gap), 0, 1 + np.digitize(waited, [1.0, 2.0]))
    return {
        "first_order_size": _named(_FIRST_SIZES, np.digitize(known.cds[starts], [2, 3, 5])),
        "last_order_value": _named(_LAST_VALUES, np.digitize(known.cents[_lasts(known, starts)], [1500, 2500, 5000])),
        "order_pace": _named(_PACES, pace),
    }


def _named(names: tuple[str, ...], indices: np.ndarray) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(indices))


def _user_ids(customers: np.ndarray) -> pa.Array:
    """`00042`: customer numbers as the file writes them."""
    return pc.utf8_lpad(pa.array(customers).cast(pa.string()), width=5, padding="0")


def _money(cents: np.ndarray) -> pa.Array:
    """Cents as exact decimals: Arrow keeps a decimal128 as two 64-bit words, the lower first."""
    words = np.stack([cents, cents >> 63], axis=1).astype("<i8")
    return pa.Array.from_buffers(MONEY, len(cents), [None, pa.py_buffer(words)])
