"""Do two stages hold exactly the same users? By count and by key-set digest: a lost row and a doubled one cancel in a
count alone.

Key sets stand in manifests, where they were put by re-reading the files; how many rows and which files really lie in
the staged folder is looked up again here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

from profile_assets.storage.keys import KeySet, key_set_of
from profile_assets.storage.layout import MANIFEST_FILE, QUARANTINE_FILE, RAW_USERS, Layout
from profile_assets.storage.parquet import iter_batches, open_parquet
from profile_assets.storage.published import PublishRecord
from profile_assets.storage.records import FileEntry, Manifest
from profile_assets.storage.stages import ID_COLUMN, Staged, current
from profile_assets.storage.verdicts import Outcome
from profile_assets.storage.written import ScoreOrder
from profile_assets.users.quarantine import QUARANTINE, key_set_of_rows

MAX_FILES_SHOWN = 50
_ROW = [ID_COLUMN, "score"]


def rows_match(check: str, layout: Layout, day: dt.date, staged: Staged, source: str) -> Outcome:
    """Whether the staged rows are those of the committed stage `source` of the same day, file by file where both have
    the same files.
    """
    expected = current(layout, source, day)
    if expected is None:
        return Outcome(check=check, result="not_evaluated", detail=f"{source} of {day} is not there to compare with")
    differing = _differing_files(staged.manifest, expected)
    reasons = [*_foreign(staged.manifest, expected), *_misplaced(staged), *_uneven(staged.manifest, expected)]
    reasons += [f"{len(differing)} files hold other users than those of {source}"] if differing else []
    return _outcome(check, staged.manifest.rows, expected.rows, reasons, differing)


def read_match(check: str, layout: Layout, day: dt.date, staged: Staged) -> Outcome:
    """Whether every row that was read is kept or in quarantine, once, as both lie on the disk."""
    facts, kept = staged.manifest.facts, staged.manifest.rows
    if not {"read", "quarantined", "quarantined_keys"} <= facts.keys():
        return Outcome(check=check, result="not_evaluated", detail="the manifest does not say what was read")
    aside = _quarantined(layout, day, staged)
    reasons = list(_misplaced(staged))
    if aside != KeySet.from_json(facts["quarantined_keys"]):
        reasons.append(f"the {aside.count} rows in quarantine are not the {facts['quarantined']} that were set aside")
    if facts["read"] != kept + aside.count:
        reasons.append(f"{facts['read']} rows were read, {kept} kept and {aside.count} set aside")
    table = [{"rows": "kept", "count": kept}, {"rows": "set aside", "count": aside.count}]
    return _outcome(check, kept + aside.count, facts["read"], reasons, [dict(row) for row in table])


def _quarantined(layout: Layout, day: dt.date, staged: Staged) -> KeySet:
    """The rows set aside, read again from beside the users: staged with them, or committed."""
    is_staged = staged.folder == layout.staging(RAW_USERS, day)
    folder = layout.staging(QUARANTINE, day) if is_staged else layout.quarantine(day)
    return KeySet.total(key_set_of_rows(batch) for batch in iter_batches(folder / QUARANTINE_FILE))


def publication_matches(
    check: str, published: PublishRecord, scores: Manifest, *, part: Path, scored: Sequence[Path]
) -> Outcome:
    """Whether the published users are those that were scored, each with its score.

    Both are read again: `part`, the published file, and `scored`, the files that the manifest `scores` describes.
    """
    order, expected, seen = ScoreOrder(), ScoreOrder(), KeySet()
    for batch in iter_batches(part, columns=_ROW):
        order.add(*batch.columns)
        seen += key_set_of(batch.column(0))
    for path in scored:
        for batch in iter_batches(path, columns=_ROW):
            expected.add(*batch.columns)
    reasons = []
    if published.sources.get(scores.stage) != scores.digest:
        reasons.append("what is published was made from other scores")
    if seen.count != published.rows:
        reasons.append(f"the published file has {seen.count} rows, its footer says {published.rows}")
    if seen != scores.keys or published.keys != scores.keys:
        reasons.append("the published users are not those that were scored")
    elif order.digest != expected.digest or order.digest != published.rows_digest:
        reasons.append("the published scores are not those that were given")
    return _outcome(check, seen.count, scores.rows, reasons, [])


def _outcome(check: str, rows: int, expected: int, reasons: list[str], table: list[dict[str, object]]) -> Outcome:
    if not reasons and rows == 0:
        return Outcome(check=check, result="not_evaluated", observed=0, limit=0, detail="there are no rows to compare")
    return Outcome(
        check=check,
        result="fail" if reasons else "pass",
        observed=rows,
        limit=expected,
        detail="; ".join(reasons) or f"{rows} rows, the same users",
        table=tuple(table[:MAX_FILES_SHOWN]),
    )


def _foreign(made: Manifest, source: Manifest) -> Iterator[str]:
    """Work of another day, or made from another version of its source."""
    if made.day != source.day:
        yield f"it is of {made.day}, and {source.stage} of {source.day}"
    if made.made_from.get(source.stage) != source.digest:
        yield f"it was made from another version of {source.stage}"


def _uneven(made: Manifest, source: Manifest) -> Iterator[str]:
    if made.rows != source.rows:
        yield f"{made.rows} rows, but {source.rows} in {source.stage}"
    elif made.keys != source.keys:
        yield f"{made.rows} rows as in {source.stage}, but other users: some were lost and as many doubled or changed"


def _misplaced(staged: Staged) -> Iterator[str]:
    """What the folder holds beside or instead of what its manifest lists."""
    listed = {entry.name for entry in staged.manifest.files}
    there = {path.name for path in staged.folder.iterdir()} - {MANIFEST_FILE}
    if there != listed:
        yield f"files that its manifest does not list or lacks: {', '.join(sorted(there ^ listed))}"
    for entry in staged.manifest.files:
        if entry.name in there and (rows := _rows_in(staged, entry)) != entry.rows:
            yield f"{entry.name} has {rows} rows, its manifest says {entry.rows}"


def _rows_in(staged: Staged, entry: FileEntry) -> int:
    with open_parquet(staged.folder / entry.name) as file:
        return int(file.metadata.num_rows)


def _differing_files(made: Manifest, source: Manifest) -> list[dict[str, object]]:
    """The files of equal name that hold other users; nothing where the stages are cut differently."""
    expected = {entry.name: entry for entry in source.files}
    if expected.keys() != {entry.name for entry in made.files}:
        return []
    return [
        {"file": entry.name, "rows": entry.rows, "expected_rows": expected[entry.name].rows}
        for entry in made.files
        if entry.keys != expected[entry.name].keys
    ]
