"""`python -m benchmarks.space`: what each step of a day takes on the disk, by the bytes that it is made from.

Users of four shapes: 2 or 40 columns beside the id, of values that pack well (few distinct) or hardly (drawn anew for
each user); each as a source in Parquet (zstd), in CSV, gzipped too, and in newline-delimited JSON. What a step takes is
the most that lies under the profile's folder while it runs, over what lay there before; `asked` is what it asks the
disk for. A step that takes more than that is marked: a disk could fill up after it was found to have room.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer

from benchmarks.table import show
from profile_assets.calibration import fresh_bundle
from profile_assets.feature_store import publish as publishing
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.scoring import day as scoring
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.shards import split as splitting
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, USERS_FILE, Layout
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import ID_COLUMN, commit, require
from profile_assets.storage.verdicts import CHECKS, Outcome, StageVerdict, record
from profile_assets.users import land as landing
from profile_assets.users.contract import Column, Contract
from profile_assets.users.source_settings import SourceSettings

DAY = dt.date(2026, 1, 5)
NOW = dt.datetime(2026, 1, 6, 2, tzinfo=dt.UTC)
SHARDS = 16
Format = Literal["parquet", "csv", "ndjson"]
FORMATS: dict[str, Format] = {"parquet": "parquet", "csv": "csv", "csv.gz": "csv", "ndjson": "ndjson"}
"""By the end of a file's name."""
_SEED = 20260105
_LOOK_S = 0.01


VALUES = {"few": 8, "some": 20_000, "all": 2**62}
"""How many values a column draws from."""


def users_table(users: int, num_columns: int, values: str, id_bytes: int) -> pa.Table:
    """Ids and, in turn, a whole number, a float and a text column."""
    random = np.random.default_rng(_SEED)
    columns = {ID_COLUMN: pa.array([f"{n:0{id_bytes}d}" for n in random.permutation(users)])}
    for n in range(num_columns):
        drawn = random.integers(0, VALUES[values], users)
        if n % 3 == 0:
            columns[f"whole_{n}"] = pa.array(drawn)
        elif n % 3 == 1:
            columns[f"float_{n}"] = pa.array(random.standard_normal(users) if values == "all" else drawn / 4)
        else:
            columns[f"text_{n}"] = pa.array([f"value-{one:x}" for one in drawn])
    return pa.table(columns)


def contract_of(table: pa.Table) -> Contract:
    columns = tuple(Column(name=field.name, type=field.type) for field in table.schema if field.name != ID_COLUMN)
    return Contract(id=ID_COLUMN, columns=columns, max_quarantine_rate=0.0)


def write_source(table: pa.Table, folder: Path, kind: str) -> int:
    """The day's file in that format; its bytes."""
    place = folder / f"day={DAY}"
    place.mkdir(parents=True)
    path = place / f"part-0.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, compression="zstd")
    elif kind == "csv":
        pa_csv.write_csv(table, path)
    elif kind == "csv.gz":
        with pa.CompressedOutputStream(str(path), "gzip") as stream:
            pa_csv.write_csv(table, stream)
    else:
        table.to_pandas().to_json(path, orient="records", lines=True)
    return path.stat().st_size


class Most:
    """The most bytes that lay below a folder while it was looked at, over what lay there at first."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._before = folder, _bytes_below(folder)
        self.bytes, self.asked = 0, 0.0

    def look(self) -> None:
        self.bytes = max(self.bytes, _bytes_below(self._folder) - self._before)

    def ask(self, _layout: Layout, _doing: str, needed: float) -> None:
        self.asked = max(self.asked, needed)


def _bytes_below(folder: Path) -> int:
    sizes: dict[int, int] = {}  # by inode: a file that is renamed meanwhile is seen in both places
    for place, _, names in os.walk(folder):  # which passes over what is gone meanwhile
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found = Path(place, name).lstat()
                sizes[found.st_ino] = found.st_size
    return sum(sizes.values())


@contextlib.contextmanager
def watched(layout: Layout, asks: str) -> Iterator[Most]:
    """Looks all the while. `asks` is the module whose `require_space` says what it needs."""
    most, done = Most(layout.home), threading.Event()

    def looking() -> None:
        while not done.wait(_LOOK_S):
            most.look()

    watcher = threading.Thread(target=looking)
    watcher.start()
    try:
        with patch(f"{asks}.require_space", most.ask):
            yield most
        most.look()
    finally:
        done.set()
        watcher.join()


def let_through(layout: Layout, stage: str) -> None:
    """Record that the committed stage passed."""
    manifest = require(layout, stage, DAY)
    table = ({"column": "x", "shard": "day", "measure": "null_rate", "observed": 0.0},)
    outcomes = tuple(
        Outcome(check=name, result="pass", detail="", table=table if name == "null_rates" else ())
        for name in CHECKS[stage]
    )
    record(layout, DAY, StageVerdict(stage=stage, digest=manifest.digest, outcomes=outcomes))


Took = tuple[float, float, float]
"""Bytes taken, bytes asked for, bytes that it was made from."""


def measure(table: pa.Table, kind: str, root: Path, after: dict[str, Took]) -> dict[str, Took]:
    """By step. `after` are the steps after the landing, where they were measured already: their format is no matter."""
    layout, contract = Layout(root=root, name="space"), contract_of(table)
    layout.home.mkdir(parents=True)
    found: dict[str, Took] = {}
    made_from: float = write_source(table, root / "source", kind)
    source = SourceSettings(path=str(root / "source"), format=FORMATS[kind])
    with watched(layout, "profile_assets.users.land") as most:
        landing.commit_landing(layout, DAY, landing.land(source, contract, DAY, layout))
    let_through(layout, RAW_USERS)
    found["land"] = (most.bytes, most.asked, made_from)
    if after:
        found |= after
    else:
        _stages(layout, table, found)
    steps = ("land", "split in 16", "score, full", "publish, lookups")
    found["the day, with lookups"] = (sum(found[step][0] for step in steps), most.asked, made_from)
    return found


def _stages(layout: Layout, table: pa.Table, found: dict[str, Took]) -> None:
    raw = require(layout, RAW_USERS, DAY)
    for number in (256, 16):
        shutil.rmtree(layout.stage(USER_SHARDS, DAY), ignore_errors=True)
        with watched(layout, "profile_assets.shards.split") as most:
            shards = commit(layout, DAY, splitting.split(layout, DAY, number))
        found[f"split in {number}"] = (most.bytes, most.asked, _size(raw))
    let_through(layout, USER_SHARDS)
    with TemporaryDirectory() as models:
        bundle = fresh_bundle(Path(models) / "models", layout.stage(RAW_USERS, DAY) / USERS_FILE)
        for mode in ("incremental", "full"):
            shutil.rmtree(layout.stage(USER_SCORES, DAY), ignore_errors=True)
            settings = dataclasses.replace(ScoringSettings(workers=1), mode=mode)
            with watched(layout, "profile_assets.scoring.day") as most:
                scores = commit(layout, DAY, scoring.score_day(layout, DAY, bundle, settings))
            found[f"score, {mode}"] = (most.bytes, most.asked, _size(shards))
    let_through(layout, USER_SCORES)
    every = tuple(name for name in table.column_names if name != ID_COLUMN)
    for name, export, made in (
        ("publish, table", ExportSettings(), _size(scores)),
        ("publish, every column", ExportSettings(columns=every), _size(scores) + _size(shards)),
        ("publish, lookups", ExportSettings(online=OnlineSettings()), _size(scores)),
    ):
        shutil.rmtree(layout.offline.parent, ignore_errors=True)
        with watched(layout, "profile_assets.feature_store.publish") as most:
            publishing.publish(layout, DAY, time_zone="UTC", clock=lambda: NOW, export=export)
        found[name] = (most.bytes, most.asked, made)


def _size(manifest: Manifest) -> int:
    return sum(entry.size_bytes for entry in manifest.files)


SHAPES = (
    (2, "few", 9),
    (2, "all", 9),
    (2, "few", 36),
    (2, "few", 200),
    (40, "few", 9),
    (40, "some", 9),
    (40, "all", 9),
)


def main(users: int = 200_000) -> None:
    """Measure each shape in each format."""
    for num_columns, values, id_bytes in SHAPES:
        table, after = users_table(users, num_columns, values, id_bytes), dict[str, Took]()
        for kind in FORMATS:
            with TemporaryDirectory() as root:
                found = measure(table, kind, Path(root), after)
            ends = {step: found.pop(step) for step in ("land", "the day, with lookups")}
            show(
                f"{num_columns} columns of {values} values, ids of {id_bytes} bytes, {kind}: "
                f"{ends['land'][2] / users:.1f} bytes a user",
                ("", "bytes a user", "by those it is made from", "asked by taken"),
                [_row(step, took, users) for step, took in (ends if after else ends | found).items()],
            )
            after = found


def _row(step: str, found: Took, users: int) -> tuple[str, ...]:
    took, asked, made = found
    return (
        step,
        f"{took / users:.1f}",
        f"{took / made:.2f}",
        f"{asked / took:.2f}{'  too little' if took > asked else ''}",
    )


if __name__ == "__main__":
    typer.run(main)
