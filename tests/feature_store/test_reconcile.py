"""A published day held against its scores in full: who is too many, missing or different is found."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_assets.errors import DataError
from profile_assets.feature_store.reconcile import DECADES, MAX_EXAMPLES, Reconciliation, compare
from profile_assets.storage.layout import RECONCILE, Layout, shard_file
from profile_assets.storage.parquet import ParquetSink
from profile_assets.storage.records import Manifest
from profile_assets.storage.stages import commit, describe, seal

DAY = dt.date(2026, 1, 5)
Rows = list[tuple[str, float]]


def in_full(layout: Layout, rows: Rows, *, files: int = 2) -> Manifest:
    """Scores in full as they come to lie: cut into files anywhere."""
    folder = layout.staging(RECONCILE, DAY)
    folder.mkdir(parents=True)
    entries = []
    for index in range(files):
        part = rows[index * len(rows) // files : (index + 1) * len(rows) // files]
        columns = [pa.array([user for user, _ in part], pa.string()), pa.array([s for _, s in part], pa.float32())]
        table = pa.table(columns, ["user_id", "score"])
        path = folder / shard_file(index, files)
        with ParquetSink(path, table.schema) as sink:
            sink.write(table)
        entries.append(describe(path))
    facts = {"bundle_id": "b-1"}
    manifest = Manifest(stage=RECONCILE, day=DAY.isoformat(), files=tuple(entries), made_from={}, facts=facts)
    return commit(layout, DAY, seal(layout, DAY, manifest))


def publish(layout: Layout, rows: Rows, routes: list[str] | None = None) -> None:
    """The table's file of the day, as far as a comparison reads it."""
    table = pa.table(
        {
            "user_id": pa.array([user for user, _ in rows], pa.string()),
            "score": pa.array([score for _, score in rows], pa.float32()),
            "route": pa.array(routes or ["full"] * len(rows), pa.string()),
        }
    )
    path = layout.offline_part(DAY)
    path.parent.mkdir(parents=True)
    with ParquetSink(path, table.schema) as sink:
        sink.write(table)


def held(layout: Layout, published: Rows, full: Rows, routes: list[str] | None = None) -> Reconciliation:
    publish(layout, published, routes)
    return compare(layout, DAY, in_full(layout, full))


def users(count: int) -> Rows:
    return [(f"u{number}", number / count) for number in range(count)]


def test_the_same_scores_are_the_same(layout: Layout):
    found = held(layout, users(1000), users(1000))
    assert found.is_equal
    assert (found.published, found.full, found.largest, found.decades[0]) == (1000, 1000, 0.0, 1000)
    assert found.examples == ()


def test_an_order_of_their_own_changes_nothing(layout: Layout):
    rows = users(500)
    assert held(layout, rows, rows[250:] + rows[:250]).is_equal


def test_a_stale_score_is_found_and_shown_with_its_route(layout: Layout):
    stale = users(300)
    stale[7] = ("u7", 0.9)
    routes = ["carried" if number == 7 else "full" for number in range(300)]
    found = held(layout, stale, users(300), routes)
    assert (found.added, found.removed, found.changed, found.changed_carried) == (0, 0, 1, 1)
    assert found.largest == pytest.approx(0.9 - 7 / 300)
    (example,) = found.examples
    assert (example["kind"], example["user_id"], example["route"]) == ("changed", "u7", "carried")
    assert (example["published"], example["in_full"]) == (pytest.approx(0.9), pytest.approx(7 / 300))
    assert "1 changed by more than 1e-06 (1 of them carried)" in str(found)


def test_a_difference_within_the_tolerance_is_counted_and_is_no_change(layout: Layout):
    full = users(300)
    near = [(user, float(np.nextafter(np.float32(score), np.float32(1)))) for user, score in full]
    found = held(layout, near, full)
    assert found.is_equal
    assert 0 < found.largest < 1e-6
    assert found.decades[0] < 300


def test_a_score_that_is_no_number_is_changed(layout: Layout):
    found = held(layout, [("a", float("nan")), ("b", 0.5)], [("a", 0.5), ("b", 0.5)])
    assert found.changed == 1
    json.dumps(found.to_json(), allow_nan=False)


def test_a_user_who_stands_twice_is_one_too_many(layout: Layout):
    found = held(layout, [("a", 0.1), ("a", 0.1), ("b", 0.2)], [("a", 0.1), ("b", 0.2)])
    assert (found.added, found.removed, found.changed) == (0, 1, 0)


def test_nobody_on_either_side(layout: Layout):
    assert held(layout, [], []).is_equal
    assert held(Layout(root=layout.root, name="other"), [], users(3)).added == 3
    assert held(Layout(root=layout.root, name="third"), users(3), []).removed == 3


def test_a_few_examples_of_each_kind_are_enough(layout: Layout):
    published = [(user, score if number % 2 else 0.999) for number, (user, score) in enumerate(users(200))]
    found = held(layout, [*published, *((f"gone{n}", 0.5) for n in range(50))], [*users(200), ("new", 0.5)])
    kinds = Counter(one["kind"] for one in found.examples)
    assert kinds == {"changed": MAX_EXAMPLES, "removed": MAX_EXAMPLES, "added": 1}


def test_a_day_that_is_not_published_is_not_compared(layout: Layout):
    with pytest.raises(DataError, match="2026-01-05 is not published"):
        compare(layout, DAY, in_full(layout, users(3)))


@settings(max_examples=40)
@given(
    published=st.dictionaries(st.sampled_from([f"u{n}" for n in range(12)]), st.sampled_from([0.1, 0.5, 0.9])),
    full=st.dictionaries(st.sampled_from([f"u{n}" for n in range(12)]), st.sampled_from([0.1, 0.5, 0.9])),
    files=st.integers(1, 3),
)
def test_counts_are_those_of_a_person_with_a_pencil(
    published: dict[str, float], full: dict[str, float], files: int, tmp_path_factory: pytest.TempPathFactory
):
    layout = Layout(root=tmp_path_factory.mktemp("days"), name="purchase_30d")
    publish(layout, list(published.items()))
    found = compare(layout, DAY, in_full(layout, list(full.items()), files=files))
    both = published.keys() & full.keys()
    assert found.added == len(full.keys() - published.keys())
    assert found.removed == len(published.keys() - full.keys())
    assert found.changed == sum(published[user] != full[user] for user in both)
    assert sum(found.decades) == len(both)
    assert len(found.decades) == len(DECADES) + 2
