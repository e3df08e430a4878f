"""A day proven again from what lies on the disk: every file digested, every user counted, every link between stages.

What the records say is never believed: each of them is held against the bytes that it speaks of. Data that was pruned
is said to be, and is not wrong; what cannot be looked at is. Nothing is written, and no lock is taken: a day that is
being written while it is read may be called wrong.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from profile_assets.errors import ProfileAssetsError
from profile_assets.feature_store.buckets import ROW_SCHEMA
from profile_assets.feature_store.online import compare
from profile_assets.feature_store.publish_online import ROLLED_BACK
from profile_assets.feature_store.rows import audit
from profile_assets.feature_store.versions import OnlineStore, Version
from profile_assets.storage.keys import KeySet
from profile_assets.storage.layout import QUARANTINE_FILE, RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import iter_batches
from profile_assets.storage.parts import part_of, table_format
from profile_assets.storage.pruned import data_files, pruned_at
from profile_assets.storage.published import BUCKET, ONLINE, PublishRecord, TargetState, footer_record, read_record
from profile_assets.storage.records import FileEntry, Manifest
from profile_assets.storage.stages import ID_COLUMN, current, is_whole, keys_on_disk
from profile_assets.storage.verdicts import read_verdict, require_passed
from profile_assets.storage.withdrawals import withdrawal_of
from profile_assets.storage.written import ScoreOrder
from profile_assets.users.quarantine import key_set_of_rows

SOURCES = (RAW_USERS, USER_SHARDS, USER_SCORES)

State = Literal["right", "wrong", "pruned", "none"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found of one part of a day: `none` where it has no such part, and needs none."""

    part: str
    state: State
    detail: str


@dataclass(frozen=True, kw_only=True)
class DayProof:
    """Everything that was looked at of one day."""

    day: dt.date
    findings: tuple[Finding, ...]

    @property
    def is_right(self) -> bool:
        return all(finding.state != "wrong" for finding in self.findings)


def verify_day(layout: Layout, day: dt.date, *, online: OnlineStore | None = None) -> DayProof:
    """Look at all of a day; `online` is the store of its lookups, None for a profile without them."""
    manifests: dict[str, Manifest] = {}
    found = [
        *(_looked(stage, _stage(layout, day, stage, manifests)) for stage in SOURCES),
        _looked("quarantine", lambda: _quarantine(layout, day, manifests.get(RAW_USERS))),
        _looked("links", lambda: _links(manifests)),
        *_publication(layout, day, manifests, online),
    ]
    if all(finding.state == "none" for finding in found):
        found.append(Finding(part="day", state="wrong", detail=f"there is nothing of {day}; it was never run"))
    return DayProof(day=day, findings=tuple(found))


def _looked(part: str, look: Callable[[], tuple[State, str]]) -> Finding:
    """The finding of one look; an error of ours is what is wrong."""
    try:
        state, detail = look()
    except ProfileAssetsError as error:
        state, detail = "wrong", str(error)
    return Finding(part=part, state=state, detail=detail)


def _stage(layout: Layout, day: dt.date, stage: str, manifests: dict[str, Manifest]) -> Callable[[], tuple[State, str]]:
    def look() -> tuple[State, str]:
        folder, manifest = layout.stage(stage, day), current(layout, stage, day)
        if manifest is None:
            return ("wrong", "there are files without a manifest") if folder.exists() else ("none", "")
        manifests[stage] = manifest
        if (manifest.stage, manifest.day) != (stage, day.isoformat()):
            return "wrong", f"its manifest is that of {manifest.stage} of {manifest.day}"
        removed = pruned_at(folder)
        if removed is not None:
            return "pruned", f"{manifest.rows:,} rows until {removed:%Y-%m-%d}"
        wrong = _wrong_files(folder, manifest)
        return ("wrong", "; ".join(wrong)) if wrong else ("right", _told(manifest))

    return look


def _wrong_files(folder: Path, manifest: Manifest) -> list[str]:
    names = {entry.name for entry in manifest.files}
    extra = [f"{path.name} is not in its manifest" for path in data_files(folder) if path.name not in names]
    return [reason for entry in manifest.files if (reason := _wrong_file(folder / entry.name, entry))] + extra


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


def _links(manifests: Mapping[str, Manifest]) -> tuple[State, str]:
    """Each stage is made from the one before, and holds its very users."""
    broken = []
    pairs = [(a, b) for a, b in itertools.pairwise(SOURCES) if a in manifests and b in manifests]
    for before, after in pairs:
        if manifests[after].made_from.get(before) != manifests[before].digest:
            broken.append(f"{after} was made from another {before} than lies there")
        elif manifests[after].keys != manifests[before].keys:
            broken.append(f"{after} holds other users than {before}")
    if broken:
        return "wrong", "; ".join(broken)
    return ("right", "each stage holds the users of the one before") if pairs else ("none", "")


def _publication(
    layout: Layout, day: dt.date, manifests: Mapping[str, Manifest], online: OnlineStore | None
) -> Iterator[Finding]:
    """The verdict, the record, the part of the table and the lookups."""
    published: list[tuple[PublishRecord, Path]] = []

    def table() -> tuple[State, str]:
        part, record = part_of(layout, day), read_record(layout, day)
        withdrawal = withdrawal_of(layout, record)
        if part is None and (record is None or withdrawal is not None):
            return "none", "" if withdrawal is None else f"withdrawn by {withdrawal.by}: {withdrawal.why}"
        if part is None:
            return "wrong", "its record says that it is published, and the table has no such day"
        told = footer_record(part, day)
        audit(part, told)
        published.append((told, part))
        if withdrawal_of(layout, told) is not None:
            return "wrong", "it is withdrawn and still in the table; the same `withdraw` completes it"
        if record is None or record.sources != told.sources:
            return "wrong", f"its record is not that of the file; `profile-assets publish {day}` mends it"
        return _alone(layout, part) or ("right", f"{told.rows:,} rows of {told.bundle_id}, every value read")

    yield _looked("offline", table)
    if not published:
        return
    told, part = published[0]
    yield _looked("verdict", lambda: _verdict(layout, day, told))
    yield _looked("origin", lambda: _origin(layout, day, told, part, manifests))
    yield from _copies(layout, day)
    if online is not None:
        yield _looked("online", lambda: _online(layout, online, told, part))


def _verdict(layout: Layout, day: dt.date, told: PublishRecord) -> tuple[State, str]:
    verdict = read_verdict(layout, day)
    if verdict is None:
        return "wrong", "it is published, and there is no verdict"
    require_passed(verdict, told.sources)
    return "right", "it passed what is published"


def _origin(
    layout: Layout, day: dt.date, told: PublishRecord, part: Path, manifests: Mapping[str, Manifest]
) -> tuple[State, str]:
    """What is published is what lies in the stages: by digest, and score by score."""
    other = [stage for stage, manifest in manifests.items() if told.sources.get(stage) != manifest.digest]
    if other:
        return "wrong", f"readers see another {', '.join(other)} than lies there; run the day again"
    scores = manifests.get(USER_SCORES)
    if scores is None or pruned_at(layout.stage(USER_SCORES, day)) is not None:
        return "pruned", "the scores that it was made from are gone"
    files = [layout.stage(USER_SCORES, day) / entry.name for entry in scores.files]
    if _content(files) != _content([part]):
        return "wrong", "the table has other scores than user_scores"
    return "right", "every score is that of user_scores"


def _content(paths: Sequence[Path]) -> str:
    """The ids in their order and the bits of their scores, through all the files, as one digest."""
    order = ScoreOrder()
    for batch in itertools.chain.from_iterable(iter_batches(path, columns=[ID_COLUMN, "score"]) for path in paths):
        order.add(batch.column(ID_COLUMN), batch.column("score"))
    return order.digest


def _online(layout: Layout, store: OnlineStore, told: PublishRecord, part: Path) -> tuple[State, str]:
    """Every version that lookups have of this publication, user by user by digest, and a sample by value."""
    record = read_record(layout, told.day)
    target = None if record is None else record.targets.get(ONLINE)
    live = store.live()
    held = [one.version for one in store.held() if one.version.day == told.day]
    is_live = live is not None and live.day == told.day
    if target is not None and target.note.startswith(ROLLED_BACK):
        return "none", target.note
    if target is not None and target.state == "pending":
        return "wrong", f"pending{f' ({target.note})' if target.note else ''}; `profile-assets publish {told.day}`"
    if not held:
        return _unserved(told.day, target, live)
    if is_live and live is not None and live.id not in {version.id for version in held}:
        return _unserved(told.day, target, live)
    for version in held:
        same = version.published_at == told.published_at
        if not same and not (live is not None and version.id == live.id):
            continue  # an earlier publication of the day, kept for a rollback
        parity = compare(store, version, _rows(part))
        if not (same and parity.is_equal):
            return "wrong", f"{version.id}: {parity}"
    return "right", "live, the users and a sample of scores compared" if is_live else "held for a rollback, compared"


def _alone(layout: Layout, part: Path) -> tuple[State, str] | None:
    """What readers of a Parquet table would see beside the day's file; None where nothing."""
    strangers = [path.name for path in part.parent.glob("*.parquet") if path != part]
    if table_format(layout) != "parquet" or not strangers:
        return None
    return "wrong", f"readers also see {', '.join(strangers)}, which nobody here wrote: move it away"


def _unserved(day: dt.date, target: TargetState | None, live: Version | None) -> tuple[State, str]:
    """A day of which lookups hold no whole version: right only where they serve another day."""
    if live is not None and live.day == day:
        again = f"`profile-assets backfill {day} {day} --again`"
        return "wrong", f"lookups point to {live.id}, which is damaged or gone; {again} builds it anew"
    if live is None and target is not None and target.state == "done":
        return "wrong", f"its record says done, and lookups serve nothing; `profile-assets publish {day}`"
    return "none", "no version of it is held" if live is None else f"lookups serve {live.day}"


def _copies(layout: Layout, day: dt.date) -> Iterator[Finding]:
    """The copy on S3, for a profile that has one."""
    found = _looked("s3", lambda: _copy(layout, day))
    if found.detail:
        yield found


def _copy(layout: Layout, day: dt.date) -> tuple[State, str]:
    """What the record says of the copy on S3, which is proven where it is uploaded, and not read here."""
    record = read_record(layout, day)
    target = None if record is None else record.targets.get(BUCKET)
    if target is None:
        return "none", ""
    if target.state == "pending":
        return "wrong", f"pending; `profile-assets publish {day}` completes it"
    return "none", f"{target.state}: {target.note}, not read again"


def _rows(part: Path) -> Callable[[], Iterable[pa.RecordBatch]]:
    return lambda: (batch.cast(ROW_SCHEMA) for batch in iter_batches(part, columns=ROW_SCHEMA.names))
