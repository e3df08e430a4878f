"""A suite of Great Expectations as it stands in a JSON file, read so that what is asked is what was written.

An expectation that is not known, a value that nothing fills in, or a limit that would be rounded is a ProfileError.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from profile_assets.errors import ProfileError


def read_suite(path: Path) -> dict[str, Any]:
    """The suite in a file. ProfileError where it is none, or asks for nothing."""
    remedy = "write there what Great Expectations' suite.to_json_dict() gives, with at least one expectation"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileError(f"quality.suite: {path} cannot be read: {error}", remedy=remedy) from error
    expectations = value.get("expectations") if isinstance(value, dict) else None
    if not isinstance(expectations, list) or not expectations:
        raise ProfileError(f"quality.suite: {path} names no expectations", remedy=remedy)
    if not all(isinstance(one, dict) and "type" in one for one in expectations):
        raise ProfileError(f"quality.suite: {path} has an expectation without a type", remedy=remedy)
    return {"name": str(value.get("name", path.stem)), "expectations": expectations}


def check_suite(path: Path) -> None:
    """ProfileError where Great Expectations does not take the suite; nothing is judged."""
    written = read_suite(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import touches modules that Python has deprecated
        expectations_of(path, written)


def expectations_of(path: Path, written: dict[str, Any]) -> list[Any]:
    """The suite's expectations as Great Expectations has them, all of them, numbered in their meta."""
    import great_expectations as gx
    from great_expectations.exceptions.exceptions import GreatExpectationsError

    try:
        found = list(gx.ExpectationSuite(**written).expectations)
    except (GreatExpectationsError, AttributeError, TypeError, ValueError) as error:
        raise ProfileError(f"quality.suite: {path}: {error}", remedy="correct that expectation") from error
    if len(found) != len(written["expectations"]):  # what it does not know, it only logs
        unknown = sorted(
            {str(one["type"]) for one in written["expectations"]} - {one.expectation_type for one in found}
        )
        raise ProfileError(
            f"quality.suite: {path}: Great Expectations does not take {', '.join(unknown) or 'one of them'}",
            remedy="correct the type, or install the package that brings it",
        )
    for number, (one, as_written) in enumerate(zip(found, written["expectations"], strict=True)):
        _require_values(path, one, as_written)
        one.meta = {"number": number}
    return found


def _require_values(path: Path, one: Any, written: dict[str, Any]) -> None:
    """ProfileError where the values of an expectation are not what it was to be held against."""
    for key, value in (written.get("kwargs") or {}).items():
        where = f"quality.suite: {path}: {key} of {name_of(written)}"
        if any(isinstance(part, dict) and "$PARAMETER" in part for part in _parts(value)):
            raise ProfileError(f"{where} is a parameter, and nothing gives it a value", remedy="write the value there")
        for said, taken in zip(_parts(value), _parts(getattr(one, key, None)), strict=False):
            if isinstance(said, int) and isinstance(taken, float) and int(taken) != said:
                raise ProfileError(
                    f"{where} is {said}, which Great Expectations reads as {int(taken)}",
                    remedy=f"write an integer that a float holds, such as {int(taken)}",
                )


def _parts(value: Any) -> Iterator[Any]:
    """The value itself and everything in it."""
    yield value
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _parts(part)


def name_of(expectation: dict[str, Any]) -> str:
    """What it is called in reports: `expect_column_values_to_be_between(age)`"""
    kwargs = expectation.get("kwargs") or {}
    columns = [str(value) for key, value in kwargs.items() if key.startswith("column")]
    return f"{expectation['type']}({', '.join(columns)})"
