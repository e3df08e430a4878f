"""Landing: a day's source becomes `raw_users`, typed, each user once, with every other row set aside and counted.

Rows stream in batches; the memory taken is that of a few batches and 16 bytes a user. A day with repeated users is read
twice. The sums are taken from what was re-read from disk: rows read = rows kept + rows quarantined, or the day fails.
The caller holds the day's lock.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from profile_assets.errors import AccountingError, CorruptError, DataError
from profile_assets.storage import atomic
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import MANIFEST_FILE, QUARANTINE_FILE, RAW_USERS, USERS_FILE, Layout, day_of
from profile_assets.storage.memory import steady_memory
from profile_assets.storage.parquet import ParquetSink, iter_batches
from profile_assets.storage.records import FileEntry, Manifest, read_manifest
from profile_assets.storage.space import require_space
from profile_assets.storage.stages import ID_COLUMN, Staged, commit, describe, seal, stage_options
from profile_assets.storage.written import Written
from profile_assets.users.batches import regrouped
from profile_assets.users.clean import Cleaned, OpenDay, open_day
from profile_assets.users.columns import ColumnsBefore
from profile_assets.users.contract import Contract
from profile_assets.users.quarantine import QUARANTINE, SCHEMA, key_set_of_rows, set_aside
from profile_assets.users.repeats import Repeats, rows_to_drop
from profile_assets.users.source import SourceSettings, require_unchanged
from profile_assets.users.taking import taken

DAY_FACTOR = 3.0
"""Bytes that a day takes on the disk, by those of its source unpacked: it lands as at most 0.8 of them, is dealt into
shards of as many, and ids come again in scores, table and lookups. 0.3 to 3.0 were measured (benchmarks/space.py), most
where little but the id is landed; 6 for gzipped ids of 200 bytes that are alike. Each stage asks for its own again."""

_REPEATED = "repeated"
_REASONS_NAMED = 5


@dataclass(kw_only=True)
class _Tally:
    """What went by in one reading of the source."""

    rows_of_file: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    repeats: Repeats = field(default_factory=Repeats)
    kept: Written = field(default_factory=Written)
    struck: KeySet = field(default_factory=KeySet)

    @property
    def read(self) -> int:
        return self.rows_of_file.total()


def land(
    source: SourceSettings,
    contract: Contract,
    day: dt.date,
    layout: Layout,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Staged:
    """Stage the day's users and its quarantine; `commit_landing` makes them true. `progress` is told the rows read.

    Raises SourceError, ContractError (all that is wrong with the columns), DataError where more rows than the
    contract allows were set aside (they stay in staging, to be looked at), AccountingError.
    """
    with taken(source, contract, day) as found:
        opened = open_day(source, contract, found, before=lambda: columns_before(layout, day))
        return _land(opened, layout, progress)


def _land(opened: OpenDay, layout: Layout, progress: Callable[[int], None]) -> Staged:
    contract, day = opened.contract, opened.found.day
    require_space(layout, f"{day}, from its source to its publication,", DAY_FACTOR * opened.unpacked_bytes)
    users = atomic.empty_folder(layout.staging(RAW_USERS, day)) / USERS_FILE
    aside = atomic.empty_folder(layout.staging(QUARANTINE, day)) / QUARANTINE_FILE
    tally = _write(opened.cleaned(), contract, users, aside, progress)
    suspects = tally.repeats.suspects()
    if len(suspects):
        ids = (batch.column(0) for batch in iter_batches(users, columns=[ID_COLUMN]))
        drop = rows_to_drop(ids, suspects, contract.keep)
        tally = _write(_without(opened.cleaned(), drop, contract), contract, users, aside, lambda _: None)
    require_unchanged(opened.settings, opened.found)
    entry = _counted(users, aside, tally, day)
    _require_within(tally, contract, day, aside)
    return seal(layout, day, _manifest(opened, entry, tally))


def commit_landing(layout: Layout, day: dt.date, staged: Staged) -> Manifest:
    """Make the quarantine, then the users the day's truth."""
    atomic.replace_folder(layout.staging(QUARANTINE, day), layout.quarantine(day))
    return commit(layout, day, staged)


def clean_batches(source: SourceSettings, contract: Contract, day: dt.date) -> Iterator[pa.RecordBatch]:
    """The users of a day as they would land, nothing written: bad rows and repeated users left out."""
    with taken(source, contract, day) as found:
        opened = open_day(source, contract, found)
        repeats = Repeats()
        for cleaned in opened.cleaned():
            repeats.add(cleaned.good.column(0))
        suspects = repeats.suspects()
        ids = (cleaned.good.column(0) for cleaned in opened.cleaned()) if len(suspects) else ()
        drop = rows_to_drop(ids, suspects, contract.keep)
        for cleaned in _without(opened.cleaned(), drop, contract):
            good = cleaned.good
            if good.num_rows:
                yield good
        require_unchanged(source, found)


def columns_before(layout: Layout, day: dt.date) -> ColumnsBefore | None:
    """The source's columns of the newest day before `day` that landed; None where none did, or none kept them."""
    landed = sorted(layout.manifest(RAW_USERS, day).parent.parent.glob(f"day=*/{MANIFEST_FILE}"), reverse=True)
    for path in landed:
        earlier = day_of(path.parent.name)
        if earlier is not None and earlier < day:
            with contextlib.suppress(CorruptError):  # the trouble at hand is the one to tell; an older day serves too
                columns = read_manifest(path).facts.get("source_columns")
                return None if columns is None else ColumnsBefore(day=earlier, columns=columns)
    return None


def _write(
    batches: Iterable[Cleaned], contract: Contract, users: Path, aside: Path, progress: Callable[[int], None]
) -> _Tally:
    tally = _Tally()
    with (
        steady_memory(),
        ParquetSink(users, contract.schema, **stage_options(contract.schema)) as kept,
        ParquetSink(aside, SCHEMA) as struck,
    ):
        for table in regrouped(_sorted_out(batches, contract, struck, tally, progress), contract.schema):
            kept.write(table)
    return tally


def _sorted_out(
    batches: Iterable[Cleaned], contract: Contract, struck: ParquetSink, tally: _Tally, progress: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The good rows; the others go to `struck`, all go into the tally."""
    for cleaned in batches:
        tally.rows_of_file[cleaned.raw.file.name] += cleaned.raw.rows.num_rows + len(cleaned.raw.broken)
        if cleaned.strikes.any() or cleaned.raw.broken:
            rows = set_aside(cleaned, contract)
            tally.reasons.update(rows.column("reason").to_pylist())
            tally.struck += key_set_of_rows(rows)
            struck.write(rows)
        good = cleaned.good
        tally.repeats.add_words(tally.kept.add(good.column(0)))
        progress(tally.read)
        yield good


def _without(batches: Iterable[Cleaned], drop: np.ndarray, contract: Contract) -> Iterator[Cleaned]:
    """The batches with the good rows of these numbers (counted from 0 over all good rows) struck as repeated."""
    start = 0
    for cleaned in batches:
        good = np.flatnonzero(cleaned.strikes == 0)
        low, high = np.searchsorted(drop, [start, start + len(good)])
        start += len(good)
        if low == high:
            yield cleaned
        else:
            places = good[drop[low:high] - (start - len(good))]
            yield cleaned.also_struck(places, f"{contract.id}: {_REPEATED}")


def _counted(users: Path, aside: Path, tally: _Tally, day: dt.date) -> FileEntry:
    """The users' file as it is on disk. AccountingError unless every row read is in one of the two files, once."""
    entry = describe(users, written=tally.kept)
    quarantined = KeySet.total(key_set_of_rows(batch) for batch in iter_batches(aside))
    if tally.read != entry.rows + quarantined.count or (entry.keys, quarantined) != (tally.kept.keys, tally.struck):
        raise AccountingError(
            f"of {tally.read} rows read for {day}, {tally.kept.keys.count} were to be kept and {tally.struck.count} "
            f"set aside; on disk are {entry.rows} and {quarantined.count}, or they are not the same rows",
            remedy="run the day again; if it comes back, the disk or this program is at fault: keep the staged files",
        )
    return entry


def _require_within(tally: _Tally, contract: Contract, day: dt.date, aside: Path) -> None:
    quarantined = tally.reasons.total()
    if quarantined > contract.max_quarantine_rate * tally.read:
        reasons = ", ".join(f"{reason} ({n})" for reason, n in tally.reasons.most_common(_REASONS_NAMED))
        raise DataError(
            f"{quarantined} of {tally.read} rows of {day} were set aside, more than {contract.max_quarantine_rate:.4g} "
            f"of them: {reasons}",
            remedy=f"look at {aside}, correct the source or the contract, then run the day again",
        )


def _manifest(opened: OpenDay, entry: FileEntry, tally: _Tally) -> Manifest:
    found = opened.found
    return Manifest(
        stage=RAW_USERS,
        day=found.day.isoformat(),
        files=(entry,),
        made_from={"source": found.digest, "contract": opened.contract.digest},
        facts={
            "read": tally.read,
            "kept": entry.rows,
            "quarantined": tally.struck.count,
            "quarantined_keys": tally.struck.to_json(),
            "reasons": dict(sorted(tally.reasons.items())),
            "sources": [{"file": file.name, "rows": tally.rows_of_file[file.name]} for file in found.files],
            "ignored_files": list(found.ignored),
            "extra_columns": list(opened.extra),
            "absent_columns": list(opened.absent),
            "source_columns": dict(opened.columns),
        },
        notes={"listing": found.listing_digest},
    )
