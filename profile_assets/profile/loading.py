"""From a TOML file to a deployment: find it, parse it, report all its mistakes, move a replay's dates."""

from __future__ import annotations

import datetime as dt
import os
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from profile_assets.errors import ProfileError
from profile_assets.profile.deployment import Deployment
from profile_assets.profile.fields import Profile, Replay
from profile_assets.profile.mistakes import field_mistakes, joint_mistakes
from profile_assets.storage.remote import adopt
from profile_assets.users.demo import calendar_path
from profile_assets.users.demo_calendar import load_calendar

S3 = "s3://"
_PLACE = re.compile(r"s3://[^/\s]+(/\S.*)?/?")
DEFAULT_PROFILE = "purchase_30d.toml"


def load_deployment(
    path: Path | None = None, *, environment: Mapping[str, str] | None = None, today: dt.date | None = None
) -> Deployment:
    """The deployment that the environment names: PROFILE_CONFIG (default: the demo), PROFILE_DATA (default: data/).

    With PROFILE_DATA on S3, PROFILE_WORK (default: data/) is the folder of the working copy. `today` decides only where
    a replay begins that has not begun yet. Raises ProfileError.
    """
    env = os.environ if environment is None else environment
    data = env.get("PROFILE_DATA") or "data"
    is_remote = data.startswith(S3)
    if is_remote and not _PLACE.fullmatch(data):
        raise ProfileError(f"PROFILE_DATA is {data!r}", remedy="set it to s3://bucket or s3://bucket/prefix")
    root = _root((env.get("PROFILE_WORK") or "data") if is_remote else data)
    chosen = path or (Path(env["PROFILE_CONFIG"]) if env.get("PROFILE_CONFIG") else default_profile())
    profile = load_profile(chosen)
    if is_remote:
        _require_carried(profile, chosen)
    adopt(root / profile.name, f"{data.rstrip('/')}/{profile.name}" if is_remote else None)
    return Deployment(profile=_moved(profile, root, today or _today(profile)), root=root)


def open_deployment(path: Path | None = None) -> Deployment:
    """The same, brought up to date where its truth lies on S3."""
    deployment = load_deployment(path)
    deployment.pull()
    return deployment


def _root(text: str) -> Path:
    """The data root as an absolute path; `~` is the home folder, and no other URL than one of S3 is known."""
    if "://" in text:
        raise ProfileError(
            f"{text!r} is neither a folder nor on S3", remedy="set PROFILE_DATA to a folder, or to s3://bucket/prefix"
        )
    return Path(text).expanduser().absolute()


def _require_carried(profile: Profile, path: Path) -> None:
    if profile.export.offline == "delta":
        raise ProfileError(
            f"{path}: a Delta table is many files, and PROFILE_DATA is on S3, where a day is one upload",
            remedy='use export.offline = "parquet", or a PROFILE_DATA on a disk',
        )


def default_profile() -> Path:
    """The demo's profile, which the package carries."""
    return Path(str(resources.files("profile_assets") / "profiles" / DEFAULT_PROFILE))


def load_profile(path: Path) -> Profile:
    """The profile in a file, its dates as written. Raises one ProfileError that lists every mistake."""
    raw = _parse(path)
    mistakes: list[str] = []
    try:
        profile = Profile.model_validate(raw)
    except ValidationError as error:
        mistakes += field_mistakes(error)
    mistakes += joint_mistakes(raw)
    if mistakes:
        lines = "".join(f"\n  {line}" for line in mistakes)
        raise ProfileError(f"{path} has {len(mistakes)} mistake(s):{lines}\n", remedy="correct them in that file")
    return profile


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error}", remedy="set PROFILE_CONFIG to a profile file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path} is not TOML: {error}", remedy="correct that line") from error


def _today(profile: Profile) -> dt.date:
    return dt.datetime.now(ZoneInfo(profile.time_zone)).date()


def _moved(profile: Profile, root: Path, today: dt.date) -> Profile:
    """The profile with its dates moved onto the replay's calendar; as it is where nothing is replayed."""
    if profile.replay is None:
        return profile
    move = dt.timedelta(days=_shift_days(profile.replay, root, today))
    moved: dict[str, Any] = {"start_day": profile.start_day + move}
    if profile.schedule.live_from is not None:
        moved["schedule"] = profile.schedule.model_copy(update={"live_from": profile.schedule.live_from + move})
    if profile.training is not None:
        dates = {name: value + move for name, value in profile.training if isinstance(value, dt.date)}
        reports = tuple(day + move for day in profile.training.report_days)
        moved["training"] = profile.training.model_copy(update={**dates, "report_days": reports})
    return profile.model_copy(update=moved)


def _shift_days(replay: Replay, root: Path, today: dt.date) -> int:
    kept = calendar_path(root)
    return load_calendar(kept).shift_days if kept.exists() else (today - replay.last_known_day).days - 1
