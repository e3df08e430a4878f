"""A day proven again from what lies on the disk: every file digested, every user counted, every link between stages.

What the records say is never believed: each of them is held against the bytes that it speaks of. Data that was pruned
is said to be, and is not wrong; what cannot be looked at is never right. Nothing of the day is written, and no lock is
taken: a day that is being written while it is read may be called wrong.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from profile_assets.feature_store.bucket import Bucket
from profile_assets.feature_store.versions import OnlineStore
from profile_assets.storage.carried import missing_there
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import QUARANTINE_FILE, RAW_USERS, ROWS, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.pruned import data_files, pruned_at
from profile_assets.storage.records import FileEntry, Manifest
from profile_assets.storage.stages import current, is_whole, keys_on_disk
from profile_assets.upkeep.findings import FAULTS, Finding, State, looked
from profile_assets.upkeep.readers import publication
from profile_assets.upkeep.rerun import again, rerun_of
from profile_assets.users.quarantine import key_set_of_rows


@dataclass(frozen=True, kw_only=True)
class DayProof:
    """Everything that was looked at of one day."""

    day: dt.date
    findings: tuple[Finding, ...]

    @property
    def is_right(self) -> bool:
        return all(finding.state not in FAULTS for finding in self.findings)


def verify_day(
    layout: Layout,
    day: dt.date,
    *,
    time_zone: str,
    online: OnlineStore | None = None,
    bucket: Bucket | None = None,
) -> DayProof:
    """Look at all of a day, which ends at midnight in `time_zone`. `online` is the store of its lookups, `bucket` where
    the table lies once more; None for a profile without.
    """
    manifests: dict[str, Manifest] = {}
    found = [
        *(looked(stage, _stage(layout, day, stage, manifests)) for stage in ROWS),
        looked("quarantine", lambda: _quarantine(layout, day, manifests.get(RAW_USERS))),
        looked("links", lambda: _links(layout, day, manifests)),
        *publication(layout, day, manifests, time_zone=time_zone, online=online, bucket=bucket),
    ]
    if all(finding.state == "none" for finding in found):
        found.append(Finding(part="day", state="wrong", detail=f"there is nothing of {day}; it was never run"))
    return DayProof(day=day, findings=tuple(found))


def _stage(layout: Layout, day: dt.date, stage: str, manifests: dict[str, Manifest]) -> Callable[[], tuple[State, str]]:
    def look() -> tuple[State, str]:
        folder, manifest = layout.stage(stage, day), current(layout, stage, day)
        if manifest is None:
            return ("wrong", f"there are files without a manifest; {again(day)}") if folder.exists() else ("none", "")
        manifests[stage] = manifest
        if (manifest.stage, manifest.day) != (stage, day.isoformat()):
            return "wrong", f"its manifest is that of {manifest.stage} of {manifest.day}"
        removed = pruned_at(folder)
        if removed is not None:
            return "pruned", f"{manifest.rows:,} rows until {removed:%Y-%m-%d}"
        wrong = _wrong_files(folder, manifest)
        return ("wrong", "; ".join([*wrong, again(day)])) if wrong else ("right", _told(manifest))

    return look


def _wrong_files(folder: Path, manifest: Manifest) -> list[str]:
    names = {entry.name for entry in manifest.files}
    extra = [f"{path.name} is not in its manifest" for path in data_files(folder) if path.name not in names]
    lost = [f"{name} is gone on S3" for name in missing_there(folder)]
    return [reason for entry in manifest.files if (reason := _wrong_file(folder / entry.name, entry))] + extra + lost


def _wrong_file(path: Path, entry: FileEntry) -> str | None:
    """What is wrong with a file: its bytes, or the users that are read out of them."""
    if not path.exists():
        return f"{path.name} is gone"
    if not is_whole(path, entry):
        return f"{path.name} is not the file that its manifest describes"
    if keys_on_disk(path) != entry.keys:
        return f"{path.name} holds other users than its manifest says"
    return None


def _told(manifest: Manifest) -> str:
    files = "1 file" if len(manifest.files) == 1 else f"{len(manifest.files)} files"
    return f"{manifest.rows:,} rows in {files}, counted and digested"


def _quarantine(layout: Layout, day: dt.date, raw: Manifest | None) -> tuple[State, str]:
    if raw is None or "quarantined_keys" not in raw.facts:
        return "none", ""
    removed = pruned_at(layout.quarantine(day))
    if removed is not None:
        return "pruned", f"{raw.facts['quarantined']:,} rows until {removed:%Y-%m-%d}"
    path = layout.quarantine(day) / QUARANTINE_FILE
    seen = KeySet.total(key_set_of_rows(batch) for batch in iter_batches(path))
    if seen != KeySet.from_json(raw.facts["quarantined_keys"]):
        return "wrong", f"{seen.count:,} rows, and {raw.facts['quarantined']:,} were set aside, or they are others"
    return "right", f"{seen.count:,} rows set aside"


def _links(layout: Layout, day: dt.date, manifests: Mapping[str, Manifest]) -> tuple[State, str]:
    """Each stage is made from the one before, and holds its very users; but for a run that did not come to its end."""
    broken = []
    pairs = [(a, b) for a, b in itertools.pairwise(ROWS) if a in manifests and b in manifests]
    for before, after in pairs:
        if manifests[after].made_from.get(before) != manifests[before].digest:
            broken.append(f"{after} was made from another {before} than lies there")
        elif manifests[after].keys != manifests[before].keys:
            broken.append(f"{after} holds other users than {before}")
    rerun = rerun_of(layout, day)
    if broken and rerun is not None and rerun.has_left(manifests):
        return "noted", f"{', '.join(rerun.replaced(manifests))} as a later run made it, the rest as it is published"
    if broken:
        return "wrong", "; ".join([*broken, again(day)])
    return ("right", "each stage holds the users of the one before") if pairs else ("none", "")
