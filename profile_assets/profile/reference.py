"""The reference of the profile file, made from the fields themselves, so that it cannot fall behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from profile_assets.profile.fields import Profile
from profile_assets.profile.mistakes import models_in


def reference() -> str:
    """Every field as a line of Markdown, table by table."""
    return "\n".join(["# The profile file", "", *_table(Profile, "")]).rstrip() + "\n"


def _table(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """A table of the file: its own fields first, then the tables inside it."""
    inner = {name: list(models_in(field.annotation)) for name, field in model.model_fields.items()}
    yield "| field | default | meaning |"
    yield "|---|---|---|"
    for name, field in model.model_fields.items():
        if not inner[name]:
            yield f"| `{name}` | {_default(field)} | {field.description} |"
    yield ""
    for name, models in inner.items():
        for part in models:
            yield from _heading(prefix + name, model.model_fields[name], part)
            yield from _table(part, f"{prefix}{name}.")


def _heading(path: str, field: FieldInfo, part: type[BaseModel]) -> Iterator[str]:
    is_list = "tuple" in str(field.annotation)
    yield f"## `{f'[[{path}]]' if is_list else f'[{path}]'}`"
    yield ""
    yield (part.__doc__ or "").strip()
    yield ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    return "none" if value is None else f"`{list(value) if isinstance(value, tuple) else value!r}`"
