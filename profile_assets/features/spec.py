"""The feature spec: which columns the network sees, in which order, and how each becomes a number.

It is fitted once, on the training rows, travels in the bundle, and is the only source of order, vocabulary and
missing-value policy afterwards. A numeric feature is standardised, and missing is its mean beside an indicator of
its own. A category is a slot: 0 for what training never saw, 1 for missing, then the vocabulary, most frequent first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from profile_assets.errors import BundleError, ContractError, DataError
from profile_assets.features.columns import as_numbers, chunks_of, kind_of, text_counts
from profile_assets.features.recent import Recent
from profile_assets.storage.records import digest_of

FORMAT = 1
UNKNOWN_SLOT = 0
MISSING_SLOT = 1
FIRST_SLOT = 2

Transform = Literal["none", "log1p"]


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    """A column to use. `max_vocabulary` and `min_count` hold for text: rarer values share the unknown slot."""

    name: str
    transform: Transform = "none"
    max_vocabulary: int = 50_000
    min_count: int = 1


@dataclass(frozen=True, kw_only=True)
class NumericFeature:
    """A number: transformed, less `mean`, over `std`."""

    name: str
    transform: Transform
    mean: float
    std: float

    def standardise(self, numbers: np.ndarray) -> np.ndarray:
        """float64 of the same shape; NaN stays NaN."""
        return (transformed(numbers, self.transform) - self.mean) / self.std


@dataclass(frozen=True, kw_only=True)
class CategoricalFeature:
    """A category: the index of a value in `vocabulary`, plus 2, is its slot."""

    name: str
    vocabulary: tuple[str, ...]

    @property
    def slots(self) -> int:
        return FIRST_SLOT + len(self.vocabulary)

    @cached_property
    def values(self) -> pa.Array:
        """The vocabulary as Arrow text, made once."""
        return pa.array(self.vocabulary, pa.string())

    @cached_property
    def recent(self) -> Recent:
        """What became of the dictionary that was looked up last."""
        return Recent()


@dataclass(frozen=True, kw_only=True)
class FeatureSpec:
    """The features in the order that the network takes them: the numeric ones, then the categories."""

    numeric: tuple[NumericFeature, ...]
    categorical: tuple[CategoricalFeature, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(one.name for one in self.numeric), *(one.name for one in self.categorical))

    @cached_property
    def digest(self) -> str:
        """sha256 of the spec in canonical JSON."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "numeric": [
                {"name": one.name, "transform": one.transform, "mean": one.mean, "std": one.std, "missing": "mean"}
                for one in self.numeric
            ],
            "categorical": [
                {"name": one.name, "vocabulary": list(one.vocabulary), "missing": "slot"} for one in self.categorical
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FeatureSpec:
        """The spec as it was written; BundleError listing everything in it that cannot be used."""
        try:
            if value["format"] != FORMAT:
                raise _unusable([f"its format is {value['format']!r}, this version reads {FORMAT}"])
            spec = cls(
                numeric=tuple(_numeric_from_json(one) for one in value["numeric"]),
                categorical=tuple(_categorical_from_json(one) for one in value["categorical"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _unusable([f"{type(error).__name__}: {error}"]) from error
        if problems := list(_problems(spec)):
            raise _unusable(problems)
        return spec


def transformed(numbers: np.ndarray, transform: Transform) -> np.ndarray:
    """float64 of the same shape. log1p keeps the sign: sign(x) * log(1 + |x|), so that a refund has a value too."""
    values = numbers.astype(np.float64, copy=False)
    if transform == "none":
        return values
    return np.copysign(np.log1p(np.abs(values)), values)


def fit_spec(features: Sequence[FeatureSettings], table: pa.Table) -> FeatureSpec:
    """Read means, deviations and vocabularies off the training rows.

    ContractError where a column is absent or neither number nor text; DataError where one holds infinities.
    """
    kinds = _kinds(features, table.schema)
    numeric = [one for one in features if kinds[one.name] == "numeric"]
    categorical = [one for one in features if kinds[one.name] == "categorical"]
    return FeatureSpec(
        numeric=tuple(_fit_numeric(one, table.column(one.name)) for one in numeric),
        categorical=tuple(_fit_categorical(one, table.column(one.name)) for one in categorical),
    )


def _kinds(features: Sequence[FeatureSettings], schema: pa.Schema) -> dict[str, str]:
    kinds: dict[str, str] = {}
    problems = [] if features else ["no feature is named"]
    for one in features:
        places = schema.get_all_field_indices(one.name)
        kind = kind_of(schema.field(places[0]).type) if len(places) == 1 else None
        if one.name in kinds:
            problems.append(f"{one.name} is named twice")
        elif len(places) != 1:
            problems.append(f"{one.name} is in the table {len(places)} times")
        elif kind is None:
            problems.append(f"{one.name} holds {schema.field(places[0]).type}, neither a number nor text")
        kinds[one.name] = kind or "unusable"
    if problems:
        raise ContractError(
            f"the features cannot be fitted: {'; '.join(problems)}",
            remedy="name under model.features only columns of the contract that hold numbers, booleans or text",
        )
    return kinds


def _fit_numeric(settings: FeatureSettings, column: pa.ChunkedArray) -> NumericFeature:
    numbers = np.concatenate([np.empty(0), *(as_numbers(chunk) for chunk in chunks_of(column))])
    present = numbers[~np.isnan(numbers)]
    beyond = int((np.abs(present) > np.finfo(np.float32).max).sum())
    if beyond:
        raise DataError(
            f"column {settings.name} holds {beyond} values among the training rows that are infinite or beyond float32",
            remedy=f"give {settings.name} a minimum and a maximum in the contract, so that such rows are set aside",
        )
    values = transformed(present, settings.transform)
    mean, std = (float(values.mean()), float(values.std())) if len(values) else (0.0, 1.0)
    # A constant column says nothing; dividing by (almost) zero would turn the first other value into a giant.
    has_spread = math.isfinite(std) and std > 1e-9 * max(1.0, abs(mean))
    return NumericFeature(name=settings.name, transform=settings.transform, mean=mean, std=std if has_spread else 1.0)


def _fit_categorical(settings: FeatureSettings, column: pa.ChunkedArray) -> CategoricalFeature:
    counts = {value: count for value, count in text_counts(column).items() if count >= settings.min_count}
    ranked = sorted(counts, key=lambda value: (-counts[value], value))
    return CategoricalFeature(name=settings.name, vocabulary=tuple(ranked[: settings.max_vocabulary]))


def _numeric_from_json(value: Mapping[str, Any]) -> NumericFeature:
    return NumericFeature(
        name=value["name"], transform=value["transform"], mean=float(value["mean"]), std=float(value["std"])
    )


def _categorical_from_json(value: Mapping[str, Any]) -> CategoricalFeature:
    return CategoricalFeature(name=value["name"], vocabulary=tuple(value["vocabulary"]))


def _problems(spec: FeatureSpec) -> Iterator[str]:
    if not spec.columns:
        yield "it names no feature"
    if len(set(spec.columns)) != len(spec.columns):
        yield "it names a feature twice"
    for number in spec.numeric:
        yield from _numeric_problems(number)
    for category in spec.categorical:
        yield from _categorical_problems(category)


def _numeric_problems(feature: NumericFeature) -> Iterator[str]:
    if feature.transform not in get_args(Transform):
        yield f"{feature.name} has the unknown transform {feature.transform!r}"
    if not (math.isfinite(feature.mean) and math.isfinite(feature.std) and feature.std > 0):
        yield f"{feature.name} has mean {feature.mean} and deviation {feature.std}"


def _categorical_problems(feature: CategoricalFeature) -> Iterator[str]:
    if not all(isinstance(value, str) for value in feature.vocabulary):
        yield f"the vocabulary of {feature.name} holds something other than text"
    elif len(set(feature.vocabulary)) != len(feature.vocabulary):
        yield f"the vocabulary of {feature.name} holds a value twice"


def _unusable(problems: Sequence[str]) -> BundleError:
    return BundleError(
        f"the feature spec cannot be used: {'; '.join(problems)}", remedy="promote another bundle, or train a new one"
    )
