"""The numbers of a profile as a Prometheus textfile, for the textfile collector of a node exporter or the like.

Everything is read from the disk and the book of alerts, so that the command line writes the same while Dagster is dead;
only the seconds of the last run are what the sensor saw last.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profile_assets.alerts.book import Book
from profile_assets.alerts.passing import replace_text
from profile_assets.alerts.problems import newest_landed
from profile_assets.alerts.settings import SEVERITIES
from profile_assets.errors import CorruptError
from profile_assets.quality.freshness import DueRule, Judgement
from profile_assets.storage.days import day_end
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, Layout
from profile_assets.storage.published import OFFLINE, read_record
from profile_assets.storage.stages import current
from profile_assets.storage.verdicts import read_verdict

PREFIX = "profile_assets_"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One number; `help` says what it is, the same for every sample of a name."""

    name: str
    value: float
    help: str
    labels: Mapping[str, str] = field(default_factory=dict)


def write_metrics(
    layout: Layout, path: Path | None, rule: DueRule, judged: Judgement | None, book: Book, *, now: dt.datetime
) -> Path:
    """Replace the textfile, by one rename beside it: a collector never sees half of it. Gives its path."""
    final = path or layout.metrics
    text = as_text(samples(layout, rule, judged, book, now=now), profile=layout.name)
    replace_text(final, text)
    return final


def samples(layout: Layout, rule: DueRule, judged: Judgement | None, book: Book, *, now: dt.datetime) -> list[Sample]:
    """Every number at `now`; those of days are left out where nothing could be judged."""
    found = [Sample(name="look_timestamp_seconds", value=now.timestamp(), help="When these numbers were taken.")]
    if judged is not None:
        found += [*_freshness(rule, judged), *_newest_day(layout, judged.table.newest_published), *_landed(layout)]
    return [*found, *_run(book), *_alerts(book)]


def _freshness(rule: DueRule, judged: Judgement) -> Iterator[Sample]:
    due = judged.table.newest_due
    if due is not None:
        end = day_end(due, rule.time_zone).timestamp()
        yield Sample(name="newest_due_day_timestamp_seconds", value=end, help="End of the newest day that is due.")
    for target, one in judged.targets.items():
        where = {"target": target}
        is_stale, told = one.state in ("stale", "unknown"), "1 while a due day is missing, or that cannot be told."
        yield Sample(name="stale", value=is_stale, help=told, labels=where)
        yield Sample(name="missing_days", value=len(one.missing), help="Due days that are missing.", labels=where)
        if one.newest_published is not None:
            end = day_end(one.newest_published, rule.time_zone).timestamp()
            told = "End of the newest day that readers see."
            yield Sample(name="newest_published_day_timestamp_seconds", value=end, help=told, labels=where)
    yield Sample(name="late_sources", value=len(judged.late), help="Due days whose source is not ready.")
    told = "Days of the table that another target does not have yet."
    for target in judged.targets:
        if target != OFFLINE:
            count = len(judged.standing.pending[target])
            yield Sample(name="pending_days", value=count, help=told, labels={"target": target})


def _newest_day(layout: Layout, day: dt.date | None) -> Iterator[Sample]:
    """Rows, speed and verdict of the newest published day."""
    record = None if day is None else read_record(layout, day)
    if day is None or record is None:
        return
    yield Sample(name="published_rows", value=record.rows, help="Rows of the newest published day.")
    scores = current(layout, USER_SCORES, day)
    seconds = float(scores.notes.get("seconds", 0.0)) if scores is not None else 0.0
    if scores is not None and seconds and scores.notes.get("scored"):
        yield Sample(name="scoring_seconds", value=seconds, help="Scoring of the newest published day.")
        yield Sample(name="scored_users_per_second", value=scores.rows / seconds, help="Users over scoring seconds.")
    verdict = read_verdict(layout, day)
    counts = Counter(
        (stage.stage, "warn" if one.result == "fail" and one.severity == "warn" else one.result)
        for stage in (verdict.stages.values() if verdict else ())
        for one in stage.outcomes
    )
    for (stage, result), count in sorted(counts.items()):
        labels = {"stage": stage, "result": result}
        yield Sample(name="checks", value=count, help="Checks of the newest published day by result.", labels=labels)


def _landed(layout: Layout) -> Iterator[Sample]:
    day = newest_landed(layout)
    try:
        manifest = None if day is None else current(layout, RAW_USERS, day)
    except CorruptError:  # which the alerts tell; a number that is not known is left out
        return
    if manifest is not None:
        read, aside = manifest.facts["read"], manifest.facts["quarantined"]
        yield Sample(name="read_rows", value=read, help="Rows read of the newest landed day.")
        yield Sample(name="quarantined_rows", value=aside, help="Rows set aside of the newest landed day.")


def _run(book: Book) -> Iterator[Sample]:
    if book.last_run is not None:
        yield Sample(name="run_seconds", value=book.last_run.seconds, help="The last ended run of the day's job.")
        yield Sample(name="run_success", value=book.last_run.is_success, help="1 if that run succeeded.")


def _alerts(book: Book) -> Iterator[Sample]:
    counts = Counter(one.severity for one in book.episodes)
    for severity in SEVERITIES:
        of = {"severity": str(severity)}
        yield Sample(name="open_alerts", value=counts[severity], help="Episodes that are not over.", labels=of)
    yield Sample(name="alerts_waiting", value=len(book.letters), help="Messages that some channel has not taken yet.")
    told = "Messages that a channel took, tries that failed, and messages given up."
    for name, state in sorted(book.channels.items()):
        for result in ("sent", "failed", "dropped"):
            labels = {"channel": name, "result": result}
            value = getattr(state, result)
            yield Sample(name="alert_deliveries_total", value=value, help=told, labels=labels)
    told = "Calls of the heartbeat's address that failed."
    yield Sample(name="heartbeat_failures_total", value=book.heartbeat_failures, help=told)


def as_text(samples: list[Sample], *, profile: str) -> str:
    """Samples in Prometheus' text format, those of one name together."""
    by_name: dict[str, list[Sample]] = {}
    for one in samples:
        by_name.setdefault(one.name, []).append(one)
    return "".join(line for name, found in by_name.items() for line in _family(PREFIX + name, found, profile))


def _family(name: str, found: list[Sample], profile: str) -> Iterator[str]:
    yield f"# HELP {name} {found[0].help}\n"
    yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n"
    for one in found:
        labels = {"profile": profile, **one.labels}
        told = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
        yield f"{name}{{{told}}} {float(one.value):.17g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
