"""What can be wrong in a profile, said so that it can be corrected: one line a mistake, the field's path first.

`field_mistakes` words what pydantic found in single fields; `joint_mistakes` looks at fields together. The second
reads the raw TOML, so that both kinds are reported in one go even when neither half is valid.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from profile_assets.feature_store.rows import SCHEMA
from profile_assets.profile.fields import Profile
from profile_assets.profile.source_mistakes import source_mistakes, table_in, tables_in
from profile_assets.profile.table_fields import ContractColumn
from profile_assets.storage.parts import PARTITION_COLUMN
from profile_assets.storage.stages import ID_COLUMN
from profile_assets.users.contract import Column, parse_type

_SECRETS = frozenset(("url_env", "urls_env", "heartbeat_url_env"))  # where somebody may have written the URL itself
TABLE_COLUMNS = (*SCHEMA.names, PARTITION_COLUMN)
TAKEN_NAMES = ("bench", "dagster", "demo", "generated")  # what else lies under PROFILE_DATA
NOT_FEATURES = ("date", "timestamp", "list")


def field_mistakes(error: ValidationError) -> list[str]:
    """One line for each field that pydantic refused."""
    return [_field_mistake(entry) for entry in error.errors()]


def _field_mistake(entry: Mapping[str, Any]) -> str:
    path = _path(entry["loc"])
    if entry["type"] == "missing":
        return f"{path}: is missing; add it ({_description(entry['loc'])})"
    if entry["type"] == "extra_forbidden":
        return f"{path}: no such field{_near(entry['loc'])}"
    message = entry["msg"].removeprefix("Value error, ")
    got = "" if _SECRETS & set(entry["loc"]) else f" (got {entry['input']!r})"
    return f"{path}: {message}{got}; it is {_description(entry['loc'])}"


def _path(location: tuple[int | str, ...]) -> str:
    """`contract.columns[2].type`"""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _near(location: tuple[int | str, ...]) -> str:
    known = _fields_at(location[:-1])
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(known)}"


def _description(location: tuple[int | str, ...]) -> str:
    field = _fields_at(location[:-1]).get(str(location[-1]))
    return field.description or "" if field else _description(location[:-1]) if location else ""


def _fields_at(location: tuple[int | str, ...]) -> dict[str, FieldInfo]:
    """The fields of the table at a path of the profile; none where a plain value or a list of values stands."""
    model: type[BaseModel] | None = Profile
    for part in location:
        if model is not None and isinstance(part, str):
            model = next(models_in(model.model_fields[part].annotation), None)
    return {} if model is None else dict(model.model_fields)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The tables that a field holds: itself, or the entries of its list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def joint_mistakes(raw: Mapping[str, Any]) -> list[str]:
    """One line for each contradiction between fields. Anything misshapen is left to `field_mistakes`."""
    tables = [
        line for name in ("source", "labels") if name in raw for line in source_mistakes(name, table_in(raw, name))
    ]
    return [
        *_name_mistakes(raw),
        *_schedule_mistakes(raw),
        *tables,
        *_contract_mistakes(raw),
        *_feature_mistakes(raw),
        *_training_mistakes(raw),
        *_export_mistakes(raw),
        *_alert_mistakes(raw),
        *_shadow_mistakes(raw),
    ]


def _name_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    if raw.get("name") in TAKEN_NAMES:
        yield f"name: {raw['name']!r} is a folder of the data root with another use; choose another name"


def _schedule_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    start, live = raw.get("start_day"), table_in(raw, "schedule").get("live_from")
    if _is_day(start) and _is_day(live) and live < start:
        yield f"schedule.live_from: {live} is before start_day {start}; no day before that is scored"


def _column_names(raw: Mapping[str, Any]) -> list[str]:
    return [str(column.get("name")) for column in tables_in(table_in(raw, "contract").get("columns"))]


def _contract_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    names = _column_names(raw)
    identifier = table_in(raw, "contract").get("id")
    for spellings in _alike(names):
        told = " and ".join(repr(name) for name in spellings)
        yield f"contract.columns: {told} are one name but for the case of letters; keep one"
    taken = (str(identifier).casefold(), ID_COLUMN)  # no reader could tell names apart by case
    for index, name in enumerate(names):
        if name.casefold() in taken:
            yield f"contract.columns[{index}].name: {name!r} is the id's own name; list only the other columns"
    for index, column in enumerate(tables_in(table_in(raw, "contract").get("columns"))):
        yield from _column_mistakes(f"contract.columns[{index}]", column)


def _column_mistakes(path: str, column: Mapping[str, Any]) -> Iterator[str]:
    """What `Column` itself refuses: bounds of what is no number, values of what is no text, and the like."""
    low, high = column.get("minimum"), column.get("maximum")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        yield f"{path}: minimum {low} is above maximum {high}; exchange them"
    try:
        Column(**{**ContractColumn.model_validate(column).model_dump(), "type": parse_type(str(column["type"]))})
    except ValidationError:
        return  # told field by field
    except ValueError as error:
        yield f"{path}: {error}"


def _alike(names: list[str]) -> list[list[str]]:
    """The names that stand twice, or differ only by case."""
    by_folded: dict[str, list[str]] = {}
    for name in names:
        by_folded.setdefault(name.casefold(), []).append(name)
    return [spellings for spellings in by_folded.values() if len(spellings) > 1]


def _feature_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    columns = {str(entry.get("name")): entry for entry in tables_in(table_in(raw, "contract").get("columns"))}
    seen: set[str] = set()
    for index, feature in enumerate(tables_in(table_in(raw, "model").get("features"))):
        name = str(feature.get("name"))
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "add it to contract.columns"
            yield f"model.features[{index}].name: {name!r} is no column of the contract; {hint}"
        elif str(columns[name].get("type")).startswith(NOT_FEATURES):
            yield f"model.features[{index}].name: {name!r} is a {columns[name]['type']}; use numbers, bool or string"
        elif columns[name].get("type") == "string" and feature.get("transform", "none") != "none":
            yield f"model.features[{index}].transform: {name!r} is text and takes no transform; remove it"
        if name in seen:
            yield f"model.features[{index}].name: {name!r} stands twice; keep one"
        seen.add(name)


def _training_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    if "training" not in raw:
        return
    if "labels" not in raw:
        yield "labels: is missing, and [training] needs it; add where the labels lie"
    training, horizon = table_in(raw, "training"), table_in(raw, "labels").get("horizon_days")
    first, last = training.get("first_day"), training.get("last_day")
    if _is_day(first) and _is_day(last) and first > last:
        yield f"training: first_day {first} is after last_day {last}; exchange them"
    reported = training.get("report_days")
    measured = [training.get("selection_day"), *(reported if isinstance(reported, list) else [])]
    for day in measured:
        if _is_day(day) and _is_day(last) and isinstance(horizon, int):
            yield from _gap_mistake(day, last, horizon)
    if _is_day(measured[0]) and measured[0] in measured[1:]:
        yield f"training.report_days: {measured[0]} is the selection_day, which is measured anyway; remove it"


def _is_day(value: Any) -> TypeGuard[dt.date]:
    """A TOML date; a TOML datetime is one to Python as well, and is refused elsewhere."""
    return type(value) is dt.date


def _gap_mistake(day: dt.date, last: dt.date, horizon_days: int) -> Iterator[str]:
    earliest = last + dt.timedelta(days=horizon_days)
    if day < earliest:
        yield f"training: {day} is measured, but labels up to {earliest} were trained on; measure later days"


def _export_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    wanted = table_in(raw, "export").get("columns")
    names = [str(name) for name in wanted] if isinstance(wanted, list) else []
    known = _column_names(raw)
    for index, name in enumerate(names):
        if name.casefold() in TABLE_COLUMNS:
            yield f"export.columns[{index}]: {name!r} is the table's own column; leave it out"
        elif name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "add it to contract.columns"
            yield f"export.columns[{index}]: {name!r} is no column of the contract; {hint}"
        if name in names[:index]:
            yield f"export.columns[{index}]: {name!r} stands twice; keep one"


def _shadow_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    """Differences are shown by a column that is there, and has few values to tell apart."""
    segment = table_in(raw, "shadow").get("segment")
    if not isinstance(segment, str):
        return
    columns = {str(one.get("name")): one for one in tables_in(table_in(raw, "contract").get("columns"))}
    if segment not in columns:
        close = difflib.get_close_matches(segment, columns, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "add it to contract.columns"
        yield f"shadow.segment: {segment!r} is no column of the contract; {hint}"
    elif columns[segment].get("type") != "string" or columns[segment].get("personal"):
        yield f"shadow.segment: {segment!r} is personal or no text; name a text column that anybody may see"


def _alert_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    """A variable is one channel: of two it would not be known which one failed."""
    alerts = table_in(raw, "alerts")
    named = alerts.get("urls_env")
    names = [(f"alerts.urls_env[{n}]", one) for n, one in enumerate(named if isinstance(named, list) else [])]
    names += [
        (f"alerts.channels[{n}].url_env", one.get("url_env")) for n, one in enumerate(tables_in(alerts.get("channels")))
    ]
    seen: list[Any] = []
    for path, name in names:
        if name in seen:
            yield f"{path}: that variable is named twice; keep one"
        seen.append(name)
