"""The line that says all is well: day, rows, seconds, warnings."""

from __future__ import annotations

from profile_assets.alerts.alert import Alert
from profile_assets.alerts.book import Book
from profile_assets.quality.freshness import Judgement
from profile_assets.storage.layout import Layout
from profile_assets.storage.published import read_record
from profile_assets.storage.verdicts import read_verdict


def all_well(layout: Layout, judged: Judgement, book: Book, *, link: str) -> Alert:
    """One line about the newest published day."""
    day = judged.table.newest_published
    record = None if day is None else read_record(layout, day)
    if day is None or record is None:
        return Alert(kind="all_well", severity="info", title=f"{layout.name}: all is well", what="", link=link)
    parts = [f"{day}: {record.rows:,} rows published"]
    if book.last_run is not None and book.last_run.day == day.isoformat():
        parts.append(f"{book.last_run.seconds:.1f} s")
    verdict = read_verdict(layout, day)
    warned = [
        one.check
        for stage in (verdict.stages.values() if verdict else ())
        for one in stage.outcomes
        if one.result == "fail"
    ]
    parts.append(f"warnings: {len(warned)} ({', '.join(warned)})" if warned else "no warnings")
    title = f"{layout.name}: all is well"
    return Alert(kind="all_well", severity="info", title=title, days=(day,), what=", ".join(parts), link=link)
