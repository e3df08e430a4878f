"""`release`: a person lets exactly the data that failed a check through it, for the record.

Rows lost or doubled are beyond it, and so is what was never evaluated. The next run of the day finds the same data,
judges it again, sees the release and goes on; a run that stages other data has forgotten it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from profile_assets.errors import GateError
from profile_assets.storage import atomic
from profile_assets.storage.layout import MANIFEST_FILE, Layout
from profile_assets.storage.outcomes import UNRELEASABLE, Release, StageVerdict
from profile_assets.storage.records import read_manifest
from profile_assets.storage.verdicts import Verdict, read_verdict, write_verdict


def release(layout: Layout, day: dt.date, check: str, *, by: str, at: dt.datetime, why: str) -> Release:
    """Let the data that failed a check through it: exactly that data, by its digest. GateError where it cannot be.

    The data must still lie staged; the next run of the day judges it again and goes on.
    """
    with atomic.locked(layout.day_lock("verdict", day), what=f"the verdict of {day}"):
        known = read_verdict(layout, day)
        stage = _failed_stage(layout, day, check, known)
        made = Release(check=check, digest=stage.digest, by=by, at=at.isoformat(timespec="seconds"), why=why.strip())
        if not made.why:
            raise _no_release(day, check, "no reason was given", 'say why: --why "..."')
        others = tuple(one for one in stage.releases if one.check != check)
        released = dataclasses.replace(stage, releases=(*others, made))
        assert known is not None
        write_verdict(layout, dataclasses.replace(known, stages={**known.stages, stage.stage: released}))
        return made


def _failed_stage(layout: Layout, day: dt.date, check: str, known: Verdict | None) -> StageVerdict:
    """The stage whose staged data failed a check that may be released."""
    stages = () if known is None else tuple(known.stages.values())
    stage = next((one for one in stages if one.outcome(check) is not None), None)
    outcome = None if stage is None else stage.outcome(check)
    if stage is None or outcome is None:
        stopped = ", ".join(found.check for one in stages for found in one.stopping) or "none"
        raise _no_release(day, check, "it was never judged", f"name a check that stopped the day; those are: {stopped}")
    if check in UNRELEASABLE:
        raise _no_release(day, check, "nobody can let lost or doubled rows through", "mend it and run the day again")
    if outcome.result != "fail" or outcome.lets_through:
        raise _no_release(day, check, f"its result is {outcome.result}", "only a check that failed can be released")
    if not _is_there(layout, day, stage):
        raise _no_release(day, check, "the data that was judged is no longer there", "run the day again first")
    return stage


def _is_there(layout: Layout, day: dt.date, stage: StageVerdict) -> bool:
    """Whether the judged data still lies staged, or is what the day has."""
    places = (layout.staging(stage.stage, day) / MANIFEST_FILE, layout.manifest(stage.stage, day))
    return any(path.exists() and read_manifest(path).digest == stage.digest for path in places)


def _no_release(day: dt.date, check: str, why: str, remedy: str) -> GateError:
    return GateError(f"{check} of {day} is not released: {why}", remedy=remedy)
