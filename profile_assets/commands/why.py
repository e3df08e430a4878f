"""The command that traces one score, for people and as JSON."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from profile_assets.errors import DataError
from profile_assets.profile import load_deployment
from profile_assets.tracing.trace import Question, trace

console = Console(highlight=False)


def why(user: str, day: dt.date, *, is_personal: bool, as_json: bool) -> None:
    """Trace the score and print it."""
    deployment = load_deployment()
    deployment.pull(day)
    found = trace(
        Question(
            layout=deployment.layout,
            source=deployment.source,
            contract=deployment.contract,
            scoring=deployment.scoring,
            user=user,
            day=day,
            shows_personal=is_personal,
        )
    )
    if as_json:
        print(json.dumps(found, default=str))
    else:
        _show(found)
    _require_known(found)


def _require_known(found: Mapping[str, Any]) -> None:
    """DataError for a user of whom there is nothing to trace; it comes after what was looked at."""
    places = [found["published"], found["quarantine"], found["landed"], (found["shard"] or {}).get("row")]
    if not any(places) and "file" not in found["source"]:
        raise DataError(
            f"{found['user_id']} is not known on {found['day']} ({found['state']}): neither the table, the stages nor "
            f"the rows set aside have that id, and {found['source']['note']}",
            remedy="give the id as the source writes it, zeros and all, and a day that `profile-assets status` lists",
        )


def _show(found: Mapping[str, Any]) -> None:
    published = found["published"]
    score = f": [bold]{published['score']:.6f}[/], since {published['published_at'][:19]}" if published else ""
    console.print(f"[bold]{found['user_id']}[/] on {found['day']}: {found['state']}{score}")
    _line("source", _source(found["source"]))
    for one in found["quarantine"]:
        _line("set aside", f"{one['file']} row {one['row']}: {one['reason']}")
    for name in ("landed", "shard"):
        place = found[name]
        _line(name, "not there" if place is None else f"{place['file']} row {place.get('row', 'none')}")
    if found["made_again_since"]:
        _line("made again", f"{', '.join(found['made_again_since'])}: what lies there now is not what was published")
    _show_bundle(found["bundle"])
    _show_checks(found["verdicts"])
    _show_score(found["features"], found["recomputed"])


def _source(source: Mapping[str, Any]) -> str:
    place = f"{source['file']} row {source['row']}" if "file" in source else source["state"]
    return f"{place}{' — ' if source['note'] else ''}{source['note']}"


def _show_bundle(bundle: Mapping[str, Any] | None) -> None:
    if bundle is None:
        return _line("bundle", "none has scored that day")
    if bundle["problem"]:
        return _line("bundle", bundle["problem"])
    code = bundle["code"] or {}
    dirty = ", with changes that were not committed" if code.get("is_dirty") else ""
    days = bundle["data_snapshot"].get("days") or []
    learned = [day["day"] for day in days if day.get("role") != "report"]
    _line("bundle", f"{bundle['id']}, made {bundle['made_at']}")
    _line("code", f"commit {code.get('commit')}{dirty}")
    _line("data", f"{len(learned)} days, {min(learned)} to {max(learned)}" if learned else "not recorded")
    return None


def _show_checks(verdicts: Sequence[Mapping[str, Any]]) -> None:
    failed = [one for one in verdicts if one["result"] in ("fail", "not_evaluated")]
    _line("checks", f"{len(verdicts) - len(failed)} of {len(verdicts)} let the day through")
    for one in failed:
        released = f", released by {one['released_by']}" if one["released_by"] else ""
        _line("", f"{one['stage']}: {one['check']} ({one['result']}, {one['severity']}{released}): {one['detail']}")


def _show_score(features: Sequence[Mapping[str, Any]], again: Mapping[str, Any]) -> None:
    if again["problem"]:
        return _line("score", f"cannot be worked out again: {again['problem']}")
    _line("score again", f"{again['score']:.6f}: {again['agreement']}")
    by_name = {one["feature"]: one for one in features}
    table = Table(title=again["effects_are"], title_justify="left")
    for column in ("feature", "value", "encoded", "", "score without", "effect"):
        table.add_column(column, justify="right" if column in ("score without", "effect") else "left")
    for one in again["effects"]:
        feature = by_name[one["feature"]]
        encoded = f"{feature['encoded']:.4f}" if isinstance(feature["encoded"], float) else str(feature["encoded"])
        mark = "missing" if feature["is_missing"] else "unknown" if feature["is_unknown"] else ""
        without, effect = f"{one['score_without']:.6f}", f"{one['effect']:+.6f}"
        table.add_row(one["feature"], str(feature["value"]), encoded, mark, without, effect)
    console.print(table)
    return None


def _line(name: str, text: str) -> None:
    console.print(f"  {name:<12}{text}", soft_wrap=True)
