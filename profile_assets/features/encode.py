"""The one preprocessing: rows of the users table in, the network's two arrays out.

Training, the daily scoring and the online service all pass here, with the spec of one bundle. Columns are found by
name, so their order, and columns beside them, do not matter. A value that training never saw goes to the unknown
slot and is counted. Whole columns only; text may come plain, large or dictionary-encoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.errors import ContractError, DataError
from profile_assets.features.columns import Column, Kind, as_numbers, as_text, can_hold, chunks_of
from profile_assets.features.spec import (
    FIRST_SLOT,
    MISSING_SLOT,
    UNKNOWN_SLOT,
    CategoricalFeature,
    FeatureSpec,
    NumericFeature,
)
from profile_assets.storage.stages import ID_COLUMN

CACHED_ROWS = 8192  # numbers worked on together: each step finds what the one before left in the fast caches


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Rows as the network takes them, feature-major: column j of each array is row j.

    numeric     float32 (2 * numeric features, rows), C-contiguous: standardised values, then missing indicators
    categories  int32 (categorical features, rows), C-contiguous: slots
    unknown     how many rows of each category fell into the unknown slot
    """

    numeric: np.ndarray
    categories: np.ndarray
    unknown: dict[str, int]

    @property
    def rows(self) -> int:
        return int(self.numeric.shape[1])


def encode(batch: pa.RecordBatch | pa.Table, spec: FeatureSpec) -> Encoded:
    """Encode rows by a spec.

    ContractError listing every column that is absent, there twice, or of a type that cannot feed its feature;
    DataError naming the column and the first row that holds an infinity, or a number that float32 cannot.
    """
    _check_columns(batch.schema, spec)
    features = len(spec.numeric)
    numeric = np.zeros((2 * features, batch.num_rows), np.float32)
    categories = np.empty((len(spec.categorical), batch.num_rows), np.int32)
    for place, number in enumerate(spec.numeric):
        _encode_numeric(batch, number, numeric[place], numeric[features + place])
    for place, category in enumerate(spec.categorical):
        _encode_categorical(batch.column(category.name), category, categories[place])
    unknown = {
        category.name: int(np.count_nonzero(categories[place] == UNKNOWN_SLOT))
        for place, category in enumerate(spec.categorical)
    }
    return Encoded(numeric=numeric, categories=categories, unknown=unknown)


def _check_columns(schema: pa.Schema, spec: FeatureSpec) -> None:
    problems = [
        *(text for one in spec.numeric for text in _column_problems(schema, one.name, "numeric")),
        *(text for one in spec.categorical for text in _column_problems(schema, one.name, "categorical")),
    ]
    if problems:
        raise ContractError(
            f"the users do not fit the model's features: {'; '.join(problems)}",
            remedy="bring the columns back as they were in training, or train and promote a bundle on the new ones",
        )


def _column_problems(schema: pa.Schema, name: str, wanted: Kind) -> Iterator[str]:
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        yield f"column {name} is missing" if not places else f"column {name} is there {len(places)} times"
        return
    kind = schema.field(places[0]).type
    if not can_hold(kind, wanted):
        yield f"column {name} holds {kind}, the model takes {'numbers' if wanted == 'numeric' else 'text'}"


def _slices(column: Column) -> Iterator[tuple[pa.Array, slice]]:
    """Each contiguous piece of a column with its place among the rows."""
    start = 0
    for chunk in chunks_of(column):
        yield chunk, slice(start, start + len(chunk))
        start += len(chunk)


def _encode_numeric(
    batch: pa.RecordBatch | pa.Table, feature: NumericFeature, values: np.ndarray, indicator: np.ndarray
) -> None:
    """Fill one row of values, and one of missing indicators which comes in as zeros."""
    for chunk, place in _slices(batch.column(feature.name)):
        numbers = as_numbers(chunk)
        for start in range(0, len(numbers), CACHED_ROWS):
            rows = slice(place.start + start, min(place.start + start + CACHED_ROWS, place.stop))
            part = numbers[start : start + CACHED_ROWS]
            bad = _standardise(part, feature, values[rows], indicator[rows])
            if bad is not None:
                raise _infinite(batch, feature.name, rows.start + bad)


def _standardise(numbers: np.ndarray, feature: NumericFeature, values: np.ndarray, indicator: np.ndarray) -> int | None:
    """Fill the values and indicators of a few rows; gives the first row that is no number and not missing."""
    with np.errstate(over="ignore"):
        values[:] = feature.standardise(numbers)
    finite = np.isfinite(values)
    if finite.all():
        return None
    missing = np.isnan(numbers)
    if not (finite | missing).all():
        return int(np.argmin(finite | missing))
    np.copyto(values, 0.0, where=missing)  # 0 is the mean; multiplying by a mask would keep the NaN
    indicator[:] = missing
    return None


def _infinite(batch: pa.RecordBatch | pa.Table, name: str, row: int) -> DataError:
    held = batch.column(name)[row].as_py()
    has_id = len(batch.schema.get_all_field_indices(ID_COLUMN)) == 1
    who = f"user {batch.column(ID_COLUMN)[row].as_py()!r}" if has_id else f"row {row} of the batch"
    return DataError(
        f"column {name} holds {held!r} for {who}, which is no number that the model can take",
        remedy=f"give {name} a minimum and a maximum in the contract, so that such rows are set aside",
    )


def _encode_categorical(column: Column, feature: CategoricalFeature, slots: np.ndarray) -> None:
    for chunk, place in _slices(column):
        slots[place] = _dictionary_slots(chunk, feature) if _is_coded(chunk) else _text_slots(chunk, feature)


def _is_coded(chunk: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(chunk.type))


def _dictionary_slots(chunk: pa.DictionaryArray, feature: CategoricalFeature) -> np.ndarray:
    """Look up the distinct values only; the rows take theirs by index. A null among the values is missing too."""
    known = feature.recent.get(chunk.dictionary, lambda values: _slots_and_missing(values, feature))
    codes = chunk.indices
    if codes.null_count:
        codes = codes.cast(pa.int64()).fill_null(len(chunk.dictionary))
    # Not known[codes], which does not let other threads run meanwhile.
    return np.asarray(np.take(known, codes.to_numpy(zero_copy_only=False)))


def _slots_and_missing(values: pa.Array, feature: CategoricalFeature) -> np.ndarray:
    """The slot of each value of a dictionary, int32 of shape (values + 1,); the last is that of a null."""
    return np.append(_text_slots(values, feature), np.int32(MISSING_SLOT))


def _text_slots(chunk: pa.Array, feature: CategoricalFeature) -> np.ndarray:
    found = pc.index_in(as_text(chunk), value_set=feature.values)
    slots = np.asarray(found.fill_null(UNKNOWN_SLOT - FIRST_SLOT).to_numpy(zero_copy_only=False)) + np.int32(FIRST_SLOT)
    if chunk.null_count:
        slots[chunk.is_null().to_numpy(zero_copy_only=False)] = MISSING_SLOT
    return slots
