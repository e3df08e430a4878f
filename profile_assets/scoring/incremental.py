"""Which earlier day's scores a day may carry: the newest that readers see, scored by the same bundle in the same way.

The scores are believed as much as those that are published are: the verdict still lets them through, the files are
those that were published, by digest, and each was made by what would score today, down to the shape of a forward and
the kind of processor. A day without such a predecessor is scored in full, and says why. What is carried is thus the
very number that a forward would give, and a day's scores never depend on which way they came about.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profile_assets.errors import CorruptError, GateError, LockedError
from profile_assets.scoring.carrying import MADE_BY, Carry
from profile_assets.scoring.fingerprint import maker
from profile_assets.scoring.match import shards_with
from profile_assets.scoring.scorer import BATCH_ROWS
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.atomic import locked
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import read_footer
from profile_assets.storage.pruned import pruned_at
from profile_assets.storage.published import PublishRecord, published_days, read_part_record
from profile_assets.storage.pulling import bring_rows
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import current, is_whole
from profile_assets.storage.verdicts import Verdict, read_verdict, require_passed
from profile_assets.storage.withdrawals import withdrawal_of

MAX_LOOKED_AT = 8  # newest published days before the day; with other bundles or code at work, one of them may do
CARRIED_FROM = "carried_from"  # in made_from: the digest of the scores that were carried


@dataclass(frozen=True, kw_only=True)
class EarlierDay:
    """A day to carry from: its scores, and its shards where these are still those that it was scored from."""

    day: dt.date
    scores: Manifest
    shards: Manifest | None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where an incremental day carries from: `earlier`, or nothing, and `why` not."""

    layout: Layout
    made_by: str
    earlier: EarlierDay | None
    why: str = ""

    @property
    def digest(self) -> str:
        """For fingerprints: of the scores that may be carried; empty without any."""
        return "" if self.earlier is None else self.earlier.scores.digest

    @property
    def made_from(self) -> dict[str, str]:
        return {} if self.earlier is None else {CARRIED_FROM: self.digest}

    def carry(self, index: int, count: int, *, looks: bool) -> Carry:
        """What shard `index` of `count` may carry; one that `looks` sees which features moved, too."""
        if self.earlier is None:
            return Carry(made_by=self.made_by)
        inputs = self.earlier.shards if looks else None
        return Carry(
            made_by=self.made_by,
            scores=self._files(USER_SCORES, self.earlier.scores, index, count),
            inputs=() if inputs is None else self._files(USER_SHARDS, inputs, index, count),
        )

    def _files(self, stage: str, manifest: Manifest, index: int, count: int) -> tuple[Path, ...]:
        assert self.earlier is not None
        folder = self.layout.stage(stage, self.earlier.day)
        return tuple(folder / manifest.files[one].name for one in shards_with(index, count, len(manifest.files)))

    def facts(self, counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What belongs to the data, from what each shard counted."""
        total = {name: sum(one[name] for one in counts) for name in ("carried", "scored", "new")}
        if self.earlier is None:
            return {"from": None, **total, "gone": 0}
        known = total["carried"] + total["scored"] - total["new"]
        return {"from": self.earlier.day.isoformat(), **total, "gone": self.earlier.scores.rows - known}

    def notes(self, counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Why there was nothing to carry from, and which features moved for how many of the users looked at."""
        seen = max(counts, key=lambda one: int(one["looked_at"]), default={"looked_at": 0, "moved": {}})
        return {"why_full": self.why, "looked_at": seen["looked_at"], "moved": seen["moved"]}


@contextlib.contextmanager
def source_of_carried(
    layout: Layout, day: dt.date, *, bundle_id: str, code: str, settings: ScoringSettings
) -> Iterator[Source | None]:
    """Where the day carries from, while nobody rewrites those scores; None for a day that is scored in full."""
    if settings.mode == "full":
        yield None
        return
    made_by = maker(bundle_id=bundle_id, code=code, settings=settings)
    with contextlib.ExitStack() as held:
        reasons: list[str] = []
        for candidate in _newest_before(layout, day):
            with contextlib.ExitStack() as holding:
                found = _held(holding, layout, candidate) or _look_at(layout, candidate, bundle_id, code)
                found = _made_otherwise(layout, found, made_by, settings) or found
                if isinstance(found, EarlierDay):
                    held.enter_context(holding.pop_all())
                    yield Source(layout=layout, made_by=made_by, earlier=found)
                    return
            reasons.append(f"{candidate}: {found}")
        why = "; ".join(reasons) or f"nothing is published of a day before {day}"
        yield Source(layout=layout, made_by=made_by, earlier=None, why=why)


def _newest_before(layout: Layout, day: dt.date) -> Iterable[dt.date]:
    return list(reversed([one for one in published_days(layout) if one < day]))[:MAX_LOOKED_AT]


def _held(holding: contextlib.ExitStack, layout: Layout, day: dt.date) -> str | None:
    """Keep others from rewriting the scores of an earlier day; why not, where they are being rewritten."""
    try:
        lock = layout.day_lock(USER_SCORES, day)
        holding.enter_context(locked(lock, what=f"{USER_SCORES} of {day}", is_shared=True, wait_s=0))
    except LockedError:
        return "it is being scored at this moment"
    return None


def _look_at(layout: Layout, day: dt.date, bundle_id: str, code: str) -> EarlierDay | str:
    """The day as one to carry from, or why it is none, by what is recorded of it."""
    try:
        record, scores, verdict = (
            read_part_record(layout, day),
            current(layout, USER_SCORES, day),
            read_verdict(layout, day),
        )
        if record is None or withdrawal_of(layout, record) is not None:
            return "it was withdrawn"
        if record.bundle_id != bundle_id:
            return f"scored by the bundle {record.bundle_id}"
        if record.canary is not None:
            return f"a share of its users was scored by the canary {record.canary['bundle_id']}"
        if scores is None or record.sources.get(USER_SCORES) != scores.digest:
            return "the scores on disk are not those that were published"
        if scores.facts["code_version"] != code:
            return "scored by another version of the code"
        if (stopped := _stopped(verdict, record)) is not None:
            return stopped
        return EarlierDay(day=day, scores=scores, shards=_inputs(layout, day, scores))
    except CorruptError as error:
        return error.what


def _stopped(verdict: Verdict | None, record: PublishRecord) -> str | None:
    if verdict is None:
        return "its verdict is gone"
    try:
        require_passed(verdict, record.sources)
    except GateError as error:
        return error.what
    return None


def _inputs(layout: Layout, day: dt.date, scores: Manifest) -> Manifest | None:
    """The shards that these scores were made from, if they still lie there; they serve a look, and nothing else."""
    try:
        shards = current(layout, USER_SHARDS, day)
        is_there = shards is not None and not _are_gone(layout.stage(USER_SHARDS, day), shards)
    except CorruptError:
        return None
    return shards if is_there and shards and scores.made_from.get(USER_SHARDS) == shards.digest else None


def _are_gone(folder: Path, shards: Manifest) -> bool:
    """Whether there is nothing to look at: pruned, or on S3 alone, from where a look would not be worth fetching it."""
    return pruned_at(folder) is not None or not all((folder / entry.name).exists() for entry in shards.files)


def _made_otherwise(layout: Layout, found: EarlierDay | str, made_by: str, settings: ScoringSettings) -> str | None:
    """Why the files of a day are not ones whose scores a forward of today would give; None where they are."""
    if isinstance(found, str):
        return None
    folder = layout.stage(USER_SCORES, found.day)
    bring_rows(layout, USER_SCORES, found.day)
    for entry in found.scores.files:
        if not is_whole(folder / entry.name, entry):
            return f"{entry.name} is not the file that its manifest describes"
        footer = read_footer(folder / entry.name)
        if MADE_BY not in footer:
            return "scored in full mode, which keeps no digests of the model's input"
        if footer[MADE_BY] != made_by or int(footer[BATCH_ROWS]) != settings.batch_rows:
            return "scored with other settings, or on another kind of machine"
    return None
