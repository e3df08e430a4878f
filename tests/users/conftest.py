"""Builders of small sources: a day's folder, a landing of it, and what came out."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.storage.layout import Layout
from profile_assets.storage.stages import Staged
from profile_assets.users.contract import Column, Contract, parse_type
from profile_assets.users.land import land
from profile_assets.users.source import SourceSettings

DAY = dt.date(2026, 1, 5)


@dataclass(frozen=True, kw_only=True)
class Landed:
    """A landing, read back."""

    staged: Staged
    users: pa.Table
    quarantine: list[dict[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        return dict(self.staged.manifest.facts)

    @property
    def ids(self) -> list[str]:
        return self.users.column("user_id").to_pylist()

    def column(self, name: str) -> list[Any]:
        return self.users.column(name).to_pylist()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A source folder for a few days, and a place to land them in."""

    root: Path
    day: dt.date = DAY
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", Layout(root=self.root / "data", name="p"))

    def folder(self, day: dt.date | None = None) -> Path:
        path = self.root / "source" / f"day={(day or self.day).isoformat()}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, content: bytes | str, day: dt.date | None = None) -> Path:
        path = self.folder(day) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def parquet(self, columns: dict[str, Any] | pa.Table, name: str = "a.parquet", day: dt.date | None = None) -> Path:
        path = self.folder(day) / name
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return path

    def settings(self, file_format: str = "parquet", **more: Any) -> SourceSettings:
        return SourceSettings(path=str(self.root / "source"), format=file_format, **more)

    def land(
        self, contract: Contract, file_format: str = "parquet", *, day: dt.date | None = None, **more: Any
    ) -> Landed:
        staged = land(self.settings(file_format, **more), contract, day or self.day, self.layout)
        aside = self.layout.staging("quarantine", day or self.day) / "rows.parquet"
        rows = [{**row, "raw": json.loads(row["raw"])} for row in pq.read_table(aside).to_pylist()]
        return Landed(staged=staged, users=pq.read_table(staged.folder / "users.parquet"), quarantine=rows)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(root=tmp_path)


@pytest.fixture
def contract() -> Callable[..., Contract]:
    """`contract(age="int32", plan=Column(...))`: an id called `uid`, and every row may be set aside."""

    def build(*, keep: Any = "first", max_quarantine_rate: float = 1.0, **columns: str | Column) -> Contract:
        return Contract(id="uid", columns=_columns(columns), keep=keep, max_quarantine_rate=max_quarantine_rate)

    return build


def _columns(columns: dict[str, str | Column]) -> Sequence[Column] | Any:
    return tuple(
        Column(name=name, type=parse_type(value)) if isinstance(value, str) else value
        for name, value in columns.items()
    )
