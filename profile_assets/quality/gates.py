"""The checks that each stage of a day goes through, on data that is staged and not yet seen.

Rows and digests are compared here (`matching.py`); everything else is a measure beside a limit, judged by Great
Expectations. Each function gives an outcome for every check of its stage, and none of them passes an empty table, a
column that is not there or a number that is none. The only other days that are ever read are the baselines.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from profile_assets.errors import CorruptError
from profile_assets.features.bins import Bins
from profile_assets.quality import scores_table, users_table
from profile_assets.quality.baseline import MAX_AGE_DAYS, WEEKDAY_AGES_DAYS
from profile_assets.quality.baseline import Baseline as Baseline
from profile_assets.quality.baseline import Baselines as Baselines
from profile_assets.quality.baseline import find_baselines as find_baselines
from profile_assets.quality.groups import Group, groups_of, with_remedy
from profile_assets.quality.limits import Limits as Limits
from profile_assets.quality.looks import Look, judge_looks
from profile_assets.quality.matching import publication_matches, read_match, rows_match
from profile_assets.quality.measures import DayMeasures, Meter, measure_split
from profile_assets.quality.scores_table import ScoreCounts
from profile_assets.storage import atomic
from profile_assets.storage.layout import RAW_USERS, USER_SCORES, USER_SHARDS, Layout
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.parts import part_of
from profile_assets.storage.published import read_part_record
from profile_assets.storage.stages import Staged, current
from profile_assets.storage.verdicts import CHECKS, SUITE, Outcome
from profile_assets.users.contract import Contract

_NO_NEWEST = f"nothing was published in the {MAX_AGE_DAYS} days before"
_NO_WEEKDAY = f"nothing was published on the same weekday {WEEKDAY_AGES_DAYS[0]} to {WEEKDAY_AGES_DAYS[-1]} days before"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a deployment's days are held against. `suite` is a Great Expectations suite of its own, as a JSON file."""

    contract: Contract
    limits: Limits
    suite: Path | None = None


def check_names(*, has_suite: bool = False) -> Mapping[str, tuple[str, ...]]:
    """The names of the checks of each stage."""
    return {**CHECKS, USER_SHARDS: (*CHECKS[USER_SHARDS], SUITE)} if has_suite else CHECKS


def judge_raw(layout: Layout, day: dt.date, staged: Staged, rules: Rules, baselines: Baselines) -> tuple[Outcome, ...]:
    """The landed users: enough of them, each row of the source accounted for, and about as many as before."""
    rows, limits = staged.manifest.rows, rules.limits
    looked = judge_looks(
        [
            _least_rows(rows, limits),
            _row_change("row_count_change", rows, limits.max_row_change, baselines.newest, _NO_NEWEST),
            _row_change("row_count_weekday", rows, limits.max_row_change_weekday, baselines.weekday, _NO_WEEKDAY),
        ]
    )
    matched = read_match("rows_match_read", layout, day, staged)
    return (looked["min_rows"], matched, looked["row_count_change"], looked["row_count_weekday"])


def judge_shards(
    layout: Layout, day: dt.date, staged: Staged, rules: Rules, baselines: Baselines, meter: Meter
) -> tuple[Outcome, ...]:
    """The shards: together exactly the landed users, each once, within the contract and like the days before."""
    matched = rows_match("rows_match_raw", layout, day, staged, RAW_USERS)
    contract, limits = rules.contract, rules.limits
    measures = measure_split(contract, staged.folder, staged.manifest, meter)
    _keep(layout.measures(USER_SHARDS, day), measures.table, layout)
    looked = judge_looks(
        [
            *users_table.repeated_id_looks(measures),
            *users_table.null_rate_looks(measures, contract),
            *_null_rate_changes(measures, contract, limits, baselines),
            *users_table.range_looks(measures, contract),
            users_table.skew_look(staged.manifest, limits.max_shard_skew),
        ]
    )
    own = () if rules.suite is None else (_own_suite(rules.suite, staged),)
    names = [name for name in CHECKS[USER_SHARDS] if name != matched.check]
    return (matched, *(looked.get(name) or _nothing_to_look_at(name) for name in names), *own)


def judge_scores(
    layout: Layout,
    day: dt.date,
    staged: Staged,
    rules: Rules,
    baselines: Baselines,
    bins: Bins | None,
    *,
    canary_bins: Bins | None = None,
) -> tuple[Outcome, ...]:
    """The scores: of exactly the users of each shard, every one a number within the limits, and not drifting.

    `bins` are those of the bundle that gave the scores. Where a canary gave those of a share, the users of each bundle
    are judged by themselves, by the bins of theirs.
    """
    groups = groups_of(staged.manifest, bins, canary_bins)
    counts = [group.count(staged.folder) for group in groups]
    tables = [group.table(counted) for group, counted in zip(groups, counts, strict=True)]
    _keep(layout.measures(USER_SCORES, day), pa.concat_tables(tables), layout)
    before = [_scores_before(layout, baselines.newest, group) for group in groups]
    looked = judge_looks(
        [
            look
            for group, counted, earlier in zip(groups, counts, before, strict=True)
            for look in group.looks(counted, earlier, baselines.newest, rules.limits)
        ]
    )
    looked = {check: with_remedy(outcome) for check, outcome in looked.items()}
    matched = rows_match("rows_match_shards", layout, day, staged, USER_SHARDS)
    names = [name for name in CHECKS[USER_SCORES] if name != matched.check]
    return (matched, *(looked.get(name) or _nothing_to_look_at(name) for name in names))


def judge_export(layout: Layout, day: dt.date) -> tuple[Outcome, ...]:
    """The published file, read again: exactly the scored users, each with its score. For once the day is published."""
    check = "rows_match_scores"
    scores, published, part = current(layout, USER_SCORES, day), read_part_record(layout, day), part_of(layout, day)
    if scores is None or published is None or part is None:
        return (Outcome(check=check, result="not_evaluated", detail=f"{day} lacks its scores or is not published"),)
    scored = [layout.stage(USER_SCORES, day) / entry.name for entry in scores.files]
    return (publication_matches(check, published, scores, part=part, scored=scored),)


def _least_rows(rows: int, limits: Limits) -> Look:
    """An empty day fails whatever the limit: nothing can be said of nothing."""
    least = float(max(1, limits.min_rows))
    return Look(check="min_rows", column="the day", measure="rows", observed=rows, side="floor", limit=least)


def _row_change(check: str, rows: int, limit: float, baseline: Baseline | None, absent: str) -> Look:
    before = None if baseline is None else baseline.rows
    return Look(
        check=check,
        column="the day",
        measure="change of rows" + ("" if baseline is None else f" since {baseline.day}"),
        observed=abs(rows - before) / before if rows and before else None,
        limit=limit,
        baseline=before,
        absent=absent if rows and baseline is None else "",
        counts={"rows": rows},
    )


def _null_rate_changes(measures: DayMeasures, contract: Contract, limits: Limits, baselines: Baselines) -> list[Look]:
    look = users_table.null_rate_change_looks
    return [
        *look("null_rate_change", measures, contract, limits.max_null_rate_change, baselines.newest, _NO_NEWEST),
        *look(
            "null_rate_weekday", measures, contract, limits.max_null_rate_change_weekday, baselines.weekday, _NO_WEEKDAY
        ),
    ]


def _scores_before(layout: Layout, baseline: Baseline | None, group: Group) -> ScoreCounts | None:
    """The scores that readers see of the day compared with, in the same bins. CorruptError where it has not all."""
    if baseline is None:
        return None
    part = part_of(layout, baseline.day) or layout.offline_part(baseline.day)
    found = scores_table.count_scores([part], group.edges)
    if found.day.rows != baseline.rows:
        raise CorruptError(
            f"{part} has {found.day.rows} scores, its record says {baseline.rows}",
            remedy=f"publish {baseline.day} again, or withdraw it",
        )
    wanted = group.compared_with(baseline)
    return found if wanted is None else scores_table.count_scores([part], group.edges, canary=wanted)


def _own_suite(path: Path, staged: Staged) -> Outcome:
    from profile_assets.quality.suite import judge_suite  # brings pandas, which most profiles have no use for

    return judge_suite(path, [(entry.name, staged.folder / entry.name) for entry in staged.manifest.files])


def _nothing_to_look_at(check: str) -> Outcome:
    """A check none of whose columns the contract or the network has: there is no limit to break."""
    return Outcome(check=check, result="pass", detail="no column has such a limit", evaluated=0)


def _keep(path: Path, table: pa.Table, layout: Layout) -> None:
    """Write down what was measured, a row for each shard and column, for people."""
    with atomic.disk_errors("cannot write", path), atomic.own_file(layout.scratch("measures"), path.name) as staged:
        with ParquetSink(staged, table.schema) as sink:
            sink.write(table)
        atomic.replace_file(staged, path)
