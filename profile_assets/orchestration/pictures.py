"""What a materialization shows in the UI: numbers that become plots, tables, and one small histogram.

Dagster shows markdown inline only below a thousand characters, so the histogram is an SVG drawn by hand, not a PNG.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import pyarrow.compute as pc

from profile_assets.orchestration.carried import carrying_metadata
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.published import PublishRecord
from profile_assets.storage.records import Manifest
from profile_assets.users.contract import Contract

if TYPE_CHECKING:  # importing it is the export's business
    from profile_assets.feature_store.publish import Published

Metadata = dict[str, dg.MetadataValue | int | float | str]

_EXAMPLES, _EXAMPLE_CHARACTERS = 3, 300
_BINS, _BAR, _GAP, _HEIGHT = 32, 13, 1, 60


def stage_metadata(manifest: Manifest, seconds: float) -> Metadata:
    """The numbers that every stage has."""
    return {
        "dagster/row_count": manifest.rows,
        "day": manifest.day,
        "bytes": sum(entry.size_bytes for entry in manifest.files),
        "seconds": round(seconds, 3),
        "users_per_second": round(manifest.rows / seconds) if seconds > 0 else 0,
        "digest": manifest.digest,
        "key_digest": f"{manifest.keys.md5_sum:032x}",
    }


def shard_table(manifest: Manifest) -> dg.MetadataValue:
    """One row a shard."""
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {"shard": entry.name, "rows": entry.rows, "bytes": entry.size_bytes, "seconds": round(entry.seconds, 3)}
            )
            for entry in manifest.files
        ]
    )


def landing_metadata(manifest: Manifest, contract: Contract, aside: Path) -> Metadata:
    """What the landing adds: the rows set aside (in the file `aside`) by reason, the source files, the columns."""
    facts = manifest.facts
    return {
        "read": facts["read"],
        "quarantined": facts["quarantined"],
        "quarantine_reasons": quarantine_table(aside),
        "source_files": count_table({one["file"]: one["rows"] for one in facts["sources"]}, "file"),
        "dagster/column_schema": column_schema(contract),
    }


def score_metadata(folder: Path, manifest: Manifest) -> Metadata:
    """What the scoring adds: the model, how many shards were reused, the shards, and how the scores are spread."""
    counts = np.zeros(_BINS, dtype=np.int64)
    for entry in manifest.files:
        for batch in iter_batches(folder / entry.name, columns=["score"]):
            # Counting whole numbers is several times as fast as numpy's histogram.
            places = (batch.column(0).to_numpy() * np.float32(len(counts))).astype(np.int8)
            counts += np.bincount(np.minimum(places, len(counts) - 1), minlength=len(counts))
    return {
        "bundle_id": manifest.facts["bundle_id"],
        "shards_scored": manifest.notes["scored"],
        "shards_kept": manifest.notes["kept"],
        "scores": histogram(counts.tolist(), low=0.0, high=1.0),
        "shards": shard_table(manifest),
        **carrying_metadata(manifest),
    }


def publication_metadata(done: Published, table: Path, seconds: float) -> Metadata:
    """What readers now see, and where."""
    record = done.record
    shown: Metadata = {
        "dagster/row_count": record.rows,
        "day": record.day.isoformat(),
        "bytes": done.part.stat().st_size,
        "seconds": round(seconds, 3),
        "users_per_second": round(record.rows / seconds) if seconds > 0 else 0,
        "bundle_id": record.bundle_id,
        "published_at": record.published_at.isoformat(timespec="seconds"),
        "path": dg.MetadataValue.path(str(done.part)),
        "table": dg.MetadataValue.path(str(table)),
        "key_digest": f"{record.keys.md5_sum:032x}",
        "targets": dg.MetadataValue.table([dg.TableRecord(row) for row in target_rows(record)]),
    }
    return shown | lookup_metadata(done)


def lookup_metadata(done: Published) -> Metadata:
    """What became of the lookups: the switch, the parity, the load."""
    brought = done.brought
    if brought is None:
        return {}
    before, after = brought.switch.before, brought.switch.after
    return {
        "online_from": "nothing" if before is None else before.id,
        "online_to": "nothing" if after is None else after.id,
        "online_parity": str(brought.parity),
        "online_seconds": round(brought.seconds, 3),
        "online_is_built": brought.is_built,
        "online_expires_at": brought.version.expires_at.isoformat(timespec="minutes"),
    }


def target_rows(record: PublishRecord) -> list[dict[str, str | int | float | bool | None]]:
    """One row a target of the publish record."""
    return [
        {"target": name, "state": target.state, "at": target.at.isoformat(timespec="seconds"), "note": target.note}
        for name, target in record.targets.items()
    ]


def count_table(counts: Mapping[str, int], name: str) -> dg.MetadataValue:
    """Counts by reason, file or the like; an empty mapping gives a table that says so."""
    rows = [dg.TableRecord({name: key, "rows": value}) for key, value in sorted(counts.items())]
    return dg.MetadataValue.table(rows or [dg.TableRecord({name: "none", "rows": 0})])


def quarantine_table(aside: Path) -> dg.MetadataValue:
    """One row a reason: how many rows, and the first of them as examples. Personal values are hashes in that file."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[dict[str, Any]]] = {}
    for batch in iter_batches(aside):
        found = dict(pair.values() for pair in pc.value_counts(batch.column("reason")).to_pylist())
        counts.update(found)
        for reason in found:
            chosen = examples.setdefault(reason, [])
            if len(chosen) < _EXAMPLES:
                rows = batch.filter(pc.equal(batch.column("reason"), reason))
                chosen.extend(rows.slice(0, _EXAMPLES - len(chosen)).to_pylist())
    if not counts:
        return count_table({}, "reason")
    return dg.MetadataValue.table([_reason_row(reason, n, examples[reason]) for reason, n in counts.most_common()])


def _reason_row(reason: str, rows: int, examples: Sequence[Mapping[str, Any]]) -> dg.TableRecord:
    places = ", ".join(f"{one['file']} row {one['row']}" for one in examples)
    shown = " | ".join(_shortened(one["raw"]) for one in examples)
    return dg.TableRecord({"reason": reason, "rows": rows, "where": places, "examples": shown})


def _shortened(text: str) -> str:
    return text if len(text) <= _EXAMPLE_CHARACTERS else f"{text[:_EXAMPLE_CHARACTERS]}…"


def column_schema(contract: Contract) -> dg.MetadataValue:
    """The landed columns as Dagster's catalogue shows them."""
    promises = {column.name: column for column in contract.columns}
    return dg.MetadataValue.table_schema(
        dg.TableSchema(
            [
                dg.TableColumn(
                    field.name,
                    str(field.type),
                    tags={"personal": ""} if field.name in promises and promises[field.name].personal else None,
                )
                for field in contract.schema
            ]
        )
    )


def histogram(counts: Sequence[int], *, low: float, high: float) -> dg.MetadataValue:
    """Bars over equal bins from `low` to `high`; heights by square root, so that rare bins stay visible."""
    tallest = max(counts, default=0) ** 0.5 or 1.0
    bars = "".join(_bar(index, count**0.5 / tallest) for index, count in enumerate(counts))
    width = len(counts) * (_BAR + _GAP)
    path = f"<path d='{bars}' fill='#46a'/>"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{_HEIGHT}'>{path}</svg>"
    picture = base64.b64encode(svg.encode()).decode()
    return dg.MetadataValue.md(f"![](data:image/svg+xml;base64,{picture}) {low:g} to {high:g}, √ rows")


def _bar(index: int, height: float) -> str:
    """One bar as a piece of an SVG path, `height` from 0 to 1."""
    pixels = round(height * (_HEIGHT - 2))
    return f"M{index * (_BAR + _GAP)} {_HEIGHT}v-{pixels}h{_BAR}v{pixels}" if pixels else ""
