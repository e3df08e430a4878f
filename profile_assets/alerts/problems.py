"""What is wrong right now, read from the disk: days that are missing, targets that wait, rows set aside, drift.

Nothing is remembered here. A problem that stands is found again at every look; `episodes` knows what was told.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profile_assets.alerts.alert import local
from profile_assets.alerts.settings import Kind, Severity
from profile_assets.errors import CorruptError
from profile_assets.quality.freshness import DueRule, Judgement, due_at
from profile_assets.storage.layout import MANIFEST_FILE, RAW_USERS, RECONCILE, Layout, day_of
from profile_assets.storage.outcomes import UNRELEASABLE, Outcome
from profile_assets.storage.published import BUCKET, OFFLINE, ONLINE, read_part_record
from profile_assets.storage.records import days_recorded, read_json
from profile_assets.storage.stages import current
from profile_assets.storage.verdicts import Verdict, read_verdict

START = "start_day"

PLACES = {OFFLINE: "published", ONLINE: "online", BUCKET: "on S3"}
"""What a day is once its target has it."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with a day. Problems of one `topic` are told together.

    `is_chained`: on the day after one of an open episode it belongs to that episode, else it begins one of its own;
    what is not chained belongs to the topic's open episode whatever its day.
    """

    topic: str
    kind: Kind
    severity: Severity
    day: dt.date
    reason: str
    since: str
    remedy: str
    is_chained: bool = False


def stale_days(layout: Layout, rule: DueRule, judged: Judgement) -> Iterator[Problem]:
    """Due days that the table lacks, with the cause."""
    for day in judged.table.missing:
        kind, reason, remedy = _cause(layout, judged, day)
        yield Problem(
            topic=OFFLINE,
            kind=kind,
            severity="error",
            day=day,
            reason=reason,
            since=local(due_at(day, rule), rule.time_zone),
            remedy=remedy,
            is_chained=True,
        )


def late_start(rule: DueRule, judged: Judgement, now: dt.datetime) -> Iterator[Problem]:
    """A first day in the future, while days are published: it keeps every other alarm quiet."""
    if judged.beyond:
        yield Problem(
            topic=START,
            kind="unjudged",
            severity="error",
            day=max(judged.standing.days_in_table),
            reason=judged.beyond,
            since=local(now, rule.time_zone),
            remedy="correct start_day in the profile, and restart what loaded it",
        )


def _cause(layout: Layout, judged: Judgement, day: dt.date) -> tuple[Kind, str, str]:
    """Kind, reason and remedy of a day that the table lacks."""
    again = f"`profile-assets backfill {day} {max(judged.table.missing)}`"  # which leaves published days alone
    if day in judged.late:
        remedy = f"have the source delivered; then the sensor source_ready starts the day, or {again}"
        return "source_late", f"its source {judged.late[day]}", remedy
    if day in judged.standing.unproven:
        return "stale", f"it {judged.standing.unproven[day]}", f"mend that, then {again}"
    stopped = _stopped(layout, day)
    if stopped is not None:
        return "stale", *stopped
    return "stale", "no run has published it", f"see its run in the UI; then {again}"


def _stopped(layout: Layout, day: dt.date) -> tuple[str, str] | None:
    """Reason and remedy of a day that a gate stopped; None where none did."""
    try:
        verdict = read_verdict(layout, day)
    except CorruptError as error:
        return f"its verdict cannot be read: {error.what}", error.remedy
    stages = () if verdict is None else tuple(verdict.stages.values())
    found = [(stage.stage, outcome) for stage in stages for outcome in stage.stopping]
    if not found:
        return None
    stage, outcome = found[0]
    return f"{stage} did not pass {outcome_in_words(outcome)}", gate_remedy(day, [outcome for _, outcome in found])


def outcome_in_words(outcome: Outcome) -> str:
    """`null_rates: observed 0.2, limit 0.1, baseline 0.09`"""
    numbers = (("observed", outcome.observed), ("limit", outcome.limit), ("baseline", outcome.baseline))
    told = ", ".join(f"{name} {value:g}" for name, value in numbers if value is not None)
    result = "" if outcome.result == "fail" else f" ({outcome.result})"
    return f"{outcome.check}{result}: {told or outcome.detail}"


def gate_remedy(day: dt.date, stopped: Sequence[Outcome]) -> str:
    """What to do about a day that gates stopped; a release only where each of them would take one."""
    mend = "mend the source or the limit and run the day again"
    if any(one.result != "fail" or one.check in UNRELEASABLE for one in stopped):
        return mend
    check = stopped[0].check
    others = f" (and so for {', '.join(one.check for one in stopped[1:])})" if stopped[1:] else ""
    return (
        f"{mend}; if the data is right all the same, "
        f'`profile-assets release {day} --check {check} --why "..."` first{others}'
    )


def waiting_targets(rule: DueRule, judged: Judgement, now: dt.datetime, *, patience_s: float) -> Iterator[Problem]:
    """Days that the table has and another target does not: once they are due, or have waited for long.

    What the table lacks, the others lack with it, and that is told of the table alone. Lookups that are lost, or cannot
    be asked, are one problem, whatever days that makes late.
    """
    yield from _lost_lookups(rule, judged, now)
    in_table = frozenset(judged.standing.days)
    for target, one in judged.targets.items():
        if target == OFFLINE:
            continue
        pending = judged.standing.pending[target]
        is_told = target == ONLINE and judged.standing.trouble
        due = {day for day in one.missing if day in in_table and not (is_told and day not in pending)}
        for day in sorted(due | set(pending)):
            at, note = pending.get(day, (due_at(day, rule), ""))
            if day in due or (now - at).total_seconds() >= patience_s:
                yield _waiting(rule, target, day, at, note, is_due=day in due)


def _lost_lookups(rule: DueRule, judged: Judgement, now: dt.datetime) -> Iterator[Problem]:
    stands = judged.standing
    newest = max(stands.days_in_table, default=None)
    if judged.lookups is None or not stands.trouble or newest is None:
        return
    is_late = bool(judged.lookups.missing) or not stands.is_served_known
    again = f"`profile-assets publish {newest}`"
    yield Problem(
        topic=ONLINE,
        kind="unjudged" if not stands.is_served_known else "stale" if is_late else "pending_target",
        severity="error" if is_late else "warning",
        day=newest,
        reason=stands.trouble,
        since=local(now, rule.time_zone),
        remedy=f"{again} brings it back"
        if stands.is_served_known
        else f"see that the store can be reached, then {again}",
    )


def _waiting(rule: DueRule, target: str, day: dt.date, at: dt.datetime, note: str, *, is_due: bool) -> Problem:
    return Problem(
        topic=target,
        kind="stale" if is_due else "pending_target",
        severity="error" if is_due else "warning",
        day=day,
        reason=f"the table has it, {PLACES[target]} it is pending{f' ({note})' if note else ''}",
        since=local(at, rule.time_zone),
        remedy=f"see that the store can be reached, then `profile-assets publish {day}`",
        is_chained=True,
    )


def set_aside(layout: Layout, rule: DueRule, now: dt.datetime, *, limit: float) -> Iterator[Problem]:
    """The newest landed day, where more of its rows than `limit` (a share) were set aside."""
    day = newest_landed(layout)
    manifest = None if day is None else current(layout, RAW_USERS, day)
    if day is None or manifest is None:
        return
    read, aside = int(manifest.facts["read"]), int(manifest.facts["quarantined"])
    if read and aside / read > limit:
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(manifest.facts["reasons"].items()))
        yield Problem(
            topic="quarantine",
            kind="quarantine",
            severity="warning",
            day=day,
            reason=f"{aside:,} of {read:,} rows set aside ({aside / read:.2%}, warned above {limit:.2%}): {reasons}",
            since=local(now, rule.time_zone),
            remedy=f"look at {layout.quarantine(day)}, and mend the source or the contract",
        )


def differing(layout: Layout, rule: DueRule, now: dt.datetime) -> Iterator[Problem]:
    """The newest reconciled day, while readers see the very publication that its scores in full differ from."""
    day = max(days_recorded(layout.reconciliations), default=None)
    found = None if day is None else read_json(layout.reconciliation(day))
    published = None if day is None else read_part_record(layout, day)
    if day is None or found is None or published is None:
        return
    try:
        seen, of = found["published"], found.get("published_at")  # older versions did not say which publication it was
        counts = [(found[name], name) for name in ("added", "removed", "changed")]
    except KeyError as error:
        path, remedy = layout.reconciliation(day), f"`profile-assets reconcile {day}` writes it anew"
        raise CorruptError(f"{path} lacks {error}", remedy=remedy) from error
    if any(count for count, _ in counts) and of == published.published_at.isoformat():
        told = ", ".join(f"{count:,} {name}" for count, name in counts)
        yield Problem(
            topic=RECONCILE,
            kind="not_reconciled",
            severity="error",
            day=day,
            reason=f"of {seen:,} users, beside those scored in full: {told}",
            since=local(now, rule.time_zone),
            remedy=f"look at the check `reconciled`; to replace the day: profile-assets reconcile {day} --replace",
        )


def newest_landed(layout: Layout) -> dt.date | None:
    """The newest day with a committed landing; folders that are named for no day are not ours."""
    folders = (path.parent.name for path in (layout.home / RAW_USERS).glob(f"day=????-??-??/{MANIFEST_FILE}"))
    return max((day for folder in folders if (day := day_of(folder)) is not None), default=None)


def warned_checks(layout: Layout, rule: DueRule, judged: Judgement, now: dt.datetime) -> Iterator[Problem]:
    """Checks that failed on the newest published day and only warn, such as drift since training; or were released."""
    day = judged.table.newest_published
    verdict = None if day is None else read_verdict(layout, day)
    if day is None or verdict is None:
        return
    for stage, outcome in _warnings(verdict):
        yield Problem(
            topic=f"drift {outcome.check}",
            kind="drift",
            severity="warning",
            day=day,
            reason=f"{stage}: {outcome.detail}",
            since=local(now, rule.time_zone),
            remedy="see the check's table in the UI; train again if what is scored has changed for good",
        )


def _warnings(verdict: Verdict) -> Iterator[tuple[str, Outcome]]:
    for stage in verdict.stages.values():
        for outcome in stage.outcomes:
            if outcome.result == "fail" and outcome.severity == "warn":
                yield stage.stage, outcome
