"""The end of what is old: the data of days past their retention, and what dead runs left staged.

Of a stage only the data goes. Its manifest stays, as do verdicts, measures, publish records and the table itself:
they are small, and later days read them. A gate takes its baselines from the table and its records, the landing
compares columns with the manifest before, and a restated source is told from the manifest that landed. A pruned day
that is run again starts from its source.

Never touched: the two newest published days (the second is what a withdrawal falls back to), what lookups serve, a
day whose publication is not complete, and a day that a run works on or whose lock is held. One pruning at a time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from profile_assets.errors import CorruptError, LockedError
from profile_assets.storage import atomic
from profile_assets.storage.carried import remove_superseded, superseded
from profile_assets.storage.layout import RAW_USERS, RECONCILE, ROWS, USER_SCORES, USER_SHARDS, Layout, day_of
from profile_assets.storage.pruned import data_bytes, remove_data
from profile_assets.storage.published import OFFLINE, ONLINE, published_days, read_record
from profile_assets.upkeep.settings import Retention

NEWEST_KEPT = 2
UNPUBLISHED_GRACE = dt.timedelta(days=1)
QUARANTINE = "quarantine"
_LOCKS = ("publish", USER_SCORES, USER_SHARDS, RAW_USERS)  # in the order in which writers take them


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Data that goes. `stage` is what it is of: a stage, the quarantine, or what a dead run left of something."""

    stage: str
    day: dt.date | None
    path: Path
    size_bytes: int
    is_left_behind: bool = False


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """What is old enough to go, and the days of which old data stays, with the reason."""

    removals: tuple[Removal, ...]
    kept: Mapping[dt.date, str]

    @property
    def size_bytes(self) -> int:
        return sum(removal.size_bytes for removal in self.removals)


Busy = Mapping[dt.date, str]
"""Days that runs work on or will, with the run."""


def plan(layout: Layout, retention: Retention, *, today: dt.date, now: dt.datetime, busy: Busy) -> Pruning:
    """What `prune` would remove now. `today` is the date in the profile's zone."""
    old = _old_stages(layout, retention, today)
    spared = _spared(layout, busy, now, {removal.day for removal in old if removal.day is not None})
    removals = [removal for removal in old if removal.day not in spared]
    left = _left_behind(layout, now - dt.timedelta(days=retention.raw_days), spared)
    return Pruning(removals=(*removals, *left, *_superseded(layout, now, spared)), kept=spared)


def prune(
    layout: Layout,
    retention: Retention,
    *,
    today: dt.date,
    now: dt.datetime,
    busy: Busy,
    progress: Callable[[Removal], None] = lambda _: None,
) -> Pruning:
    """Remove what is old; gives what was removed, and what stayed. LockedError where another pruning is going on."""
    with atomic.locked(layout.shared_lock("prune"), what=f"the pruning of {layout.name}", wait_s=0):
        planned = plan(layout, retention, today=today, now=now, busy=busy)
        kept, removed = dict(planned.kept), list[Removal]()
        for day in dict.fromkeys(removal.day for removal in planned.removals):
            try:
                with _alone(layout, day):
                    for removal in (one for one in planned.removals if one.day == day):
                        _remove(layout, removal, now)
                        removed.append(removal)
                        progress(removal)
            except LockedError as error:
                if day is not None:
                    kept[day] = error.what
    return Pruning(removals=tuple(removed), kept=dict(sorted(kept.items())))


@contextlib.contextmanager
def _alone(layout: Layout, day: dt.date | None) -> Iterator[None]:
    """Be the only one at work on a day, or leave it: nobody is waited for. What belongs to no day needs no lock."""
    with contextlib.ExitStack() as held:
        locks = [] if day is None else [(layout.day_lock(name, day), f"{name} of {day}") for name in _LOCKS]
        for path, what in locks:
            held.enter_context(atomic.locked(path, what=what, wait_s=0))
        yield


def _remove(layout: Layout, removal: Removal, now: dt.datetime) -> None:
    if removal.day is not None and not removal.is_left_behind:
        remove_data(layout, removal.stage, removal.day, now=now)
        return
    remove_superseded(removal.path)
    with atomic.disk_errors("cannot remove", removal.path):
        if removal.path.is_dir() and not removal.path.is_symlink():
            shutil.rmtree(removal.path)
        else:
            removal.path.unlink(missing_ok=True)


def _old_stages(layout: Layout, retention: Retention, today: dt.date) -> list[Removal]:
    """Committed data that is past its retention, oldest day first."""
    found = []
    for stage, keep_days in {
        **retention.of_stage,
        QUARANTINE: retention.raw_days,
        RECONCILE: retention.scores_days,
    }.items():
        for folder in sorted((layout.home / stage).glob("day=*")):
            day = day_of(folder.name)
            if day is not None and (today - day).days > keep_days and (size := data_bytes(folder)):
                found.append(Removal(stage=stage, day=day, path=folder, size_bytes=size))
    return sorted(found, key=lambda removal: (removal.day or dt.date.min, removal.stage))


def _left_behind(layout: Layout, before: dt.datetime, spared: Mapping[dt.date, str]) -> Iterator[Removal]:
    """What lies under `_staging` and was last written to before that moment: no run takes that long."""
    for folder in sorted(layout.staging_root.glob("*")):
        for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
            day = day_of(path.name)
            files = [path, *path.rglob("*")] if path.is_dir() else [path]
            if day not in spared and max(_written_at(file) for file in files) < before:
                size = _size(files)
                yield Removal(stage=folder.name, day=day, path=path, size_bytes=size, is_left_behind=True)


def _superseded(layout: Layout, now: dt.datetime, spared: Mapping[dt.date, str]) -> Iterator[Removal]:
    """What stages left on S3 that were made again, once whoever still reads by the old manifest has had a day."""
    for key, size in superseded(layout.home, now - UNPUBLISHED_GRACE).items():
        stage, folder = key.split("/")[:2]
        if (day := day_of(folder)) not in spared:
            yield Removal(stage=stage, day=day, path=layout.home / key, size_bytes=size, is_left_behind=True)


def _spared(layout: Layout, busy: Busy, now: dt.datetime, old: set[dt.date]) -> dict[dt.date, str]:
    """Days whose data stays although it is old, with the reason."""
    published = published_days(layout)
    reasons = {day: f"run {run} works on it" for day, run in busy.items()}
    for day in published[-NEWEST_KEPT:]:
        reasons.setdefault(day, "one of the newest published days")
    live = _live_day(layout, published)
    if live is not None:
        reasons.setdefault(live, "lookups serve it")
    for day in old - set(reasons):
        reason = _incomplete(layout, day, is_published=day in published, now=now)
        if reason is not None:
            reasons[day] = reason
    return {day: reasons[day] for day in sorted(reasons) if day in old or day in busy}


def _live_day(layout: Layout, published: list[dt.date]) -> dt.date | None:
    """The day that lookups serve, by the records, which never say `done` of a day that a rollback took away."""
    for day in reversed(published):
        with contextlib.suppress(CorruptError):  # such a day is spared for itself
            record = read_record(layout, day)
            target = None if record is None else record.targets.get(ONLINE)
            if target is not None and target.state == "done":
                return day
    return None


def _incomplete(layout: Layout, day: dt.date, *, is_published: bool, now: dt.datetime) -> str | None:
    """Why a day is not finished with; None for one that is."""
    try:
        record = read_record(layout, day)
    except CorruptError:
        return "its publish record cannot be read"
    pending = [name for name, target in (record.targets if record else {}).items() if target.state == "pending"]
    if pending:
        return f"its publication is pending: {', '.join(pending)}"
    is_withdrawn = record is not None and OFFLINE in record.targets and record.targets[OFFLINE].state == "withdrawn"
    if is_published or is_withdrawn:
        return None
    manifests = (layout.manifest(name, day) for name in ROWS)
    if any(now - _written_at(path) < UNPUBLISHED_GRACE for path in manifests if path.exists()):
        return "it was made within the last day and is not published"
    return None


def _written_at(path: Path) -> dt.datetime:
    """When a file or folder was last written to; now, for one that has just gone."""
    try:
        return dt.datetime.fromtimestamp(path.lstat().st_mtime, dt.UTC)
    except FileNotFoundError:
        return dt.datetime.now(dt.UTC)


def _size(files: list[Path]) -> int:
    return sum(path.lstat().st_size for path in files if path.is_file())
