"""A share of the users scored by another bundle: who, by which bits, and that nobody else notices."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import CorruptError
from profile_assets.feature_store.read import read_day
from profile_assets.features.spec import FeatureSettings, fit_spec
from profile_assets.scoring.canary import WHY_FULL, Canary
from profile_assets.scoring.day import score_day
from profile_assets.scoring.fingerprint import fingerprint, maker
from profile_assets.scoring.scorer import ROWS_DIGEST, score_sink
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import read_shard
from profile_assets.storage.layout import USER_SCORES, Layout
from profile_assets.storage.parquet import read_footer
from profile_assets.storage.records import Manifest, digest_of
from profile_assets.storage.stages import commit

ROWS = 3000
NEXT = dt.timedelta(days=1)


@pytest.fixture(scope="session")
def other(make_bundle: Any, make_users: Any) -> Path:
    """A bundle that takes fewer columns, in another order."""
    features = [FeatureSettings(name="city", max_vocabulary=50), FeatureSettings(name="age")]
    return make_bundle(seed=9, spec=fit_spec(features, make_users(2000, seed=2)))


@pytest.fixture(scope="session")
def canary(other: Path) -> Canary:
    return Canary(bundle_path=other, share=0.1, salt="canary")


def rows_of(layout: Layout, day: dt.date, manifest: Manifest) -> dict[str, dict[str, Any]]:
    folder = layout.stage(USER_SCORES, day)
    return {row["user_id"]: row for entry in manifest.files for row in pq.read_table(folder / entry.name).to_pylist()}


def score(layout: Layout, day: dt.date, bundle: Path, settings: ScoringSettings, **more: Any) -> Manifest:
    return commit(layout, day, score_day(layout, day, bundle, settings, **more))


def test_each_user_has_the_bits_that_its_bundle_gives_to_everybody(
    layout: Layout, day: dt.date, deal: Any, make_users: Any, bundle_path: Path, small: ScoringSettings, canary: Canary
):
    table = make_users(ROWS)
    deal(table, 4)
    by_stable = rows_of(layout, day, score(layout, day, bundle_path, small))
    by_other = rows_of(layout, day, score(layout, day, canary.bundle_path, small))
    manifest = score(layout, day, bundle_path, small, canary=canary)
    found = rows_of(layout, day, manifest)
    chosen = {
        user for user, taken in zip(table["user_id"].to_pylist(), canary.takes(table["user_id"]), strict=True) if taken
    }
    assert 200 < len(chosen) < 400
    assert {user for user, row in found.items() if row["route"] == "canary"} == chosen
    for user, row in found.items():
        wanted = (by_other if user in chosen else by_stable)[user]
        assert (row["score"], row["bundle_id"]) == (wanted["score"], wanted["bundle_id"])
    told = manifest.facts["canary"]
    assert (told["bundle_id"], told["share"], told["rows"]) == (canary.bundle_id, 0.1, len(chosen))
    assert sum(told["rows_by_shard"].values()) == len(chosen)
    assert set(told["unknown"]) == {"city"}
    assert set(manifest.facts["unknown"]) == {"plan", "city"}
    assert manifest.made_from["bundle"] == bundle_path.name
    assert manifest.made_from["canary"] == canary.bundle_id


def test_without_a_canary_files_and_fingerprints_are_what_they_were(
    layout: Layout, day: dt.date, deal: Any, make_users: Any, bundle_path: Path, small: ScoringSettings
):
    deal(make_users(300), 2)
    manifest = score(layout, day, bundle_path, small)
    assert set(manifest.made_from) == {"user_shards", "bundle", "code"}
    assert "canary" not in manifest.facts
    assert pq.read_schema(layout.stage(USER_SCORES, day) / manifest.files[0].name).names == [
        "user_id",
        "score",
        "bundle_id",
    ]
    made_by = maker(bundle_id="b", code="c", settings=small)
    plain = fingerprint(shard_digest="s", bundle_id="b", code="c", settings=small)
    assert plain == digest_of({"shard": "s", "maker": made_by})


def test_the_same_day_again_is_kept_and_another_share_is_made_again(
    layout: Layout, day: dt.date, deal: Any, make_users: Any, bundle_path: Path, small: ScoringSettings, canary: Canary
):
    deal(make_users(300), 2)
    first = score(layout, day, bundle_path, small, canary=canary)
    again = score_day(layout, day, bundle_path, small, canary=canary)
    assert (again.manifest.digest, again.manifest.notes["kept"]) == (first.digest, 2)
    more = score(layout, day, bundle_path, small, canary=dataclasses.replace(canary, share=0.5))
    assert (more.notes["kept"], more.digest != first.digest) == (0, True)
    alone = score(layout, day, bundle_path, small)
    assert alone.notes["kept"] == 0


def test_it_is_scored_in_processes_too(
    layout: Layout, day: dt.date, deal: Any, make_users: Any, bundle_path: Path, small: ScoringSettings, canary: Canary
):
    deal(make_users(300), 2)
    here = score(layout, day, bundle_path, small, canary=canary)
    committed = layout.stage(USER_SCORES, day)
    committed.rename(layout.root / "away")
    there = score(layout, day, bundle_path, dataclasses.replace(small, workers=2), canary=canary)
    assert [entry.digest for entry in there.files] == [entry.digest for entry in here.files]


def test_a_row_that_names_the_wrong_bundle_is_found(
    layout: Layout, day: dt.date, deal: Any, make_users: Any, bundle_path: Path, small: ScoringSettings, canary: Canary
):
    from profile_assets.scoring.shard import ShardTask

    shards = deal(make_users(300), 1)
    manifest = score(layout, day, bundle_path, small, canary=canary)
    path = layout.stage(USER_SCORES, day) / manifest.files[0].name
    task = ShardTask(
        source=layout.stage("user_shards", day) / shards.files[0].name,
        target=path,
        bundle_path=bundle_path,
        settings=small,
        fingerprint="",
        keys=shards.files[0].keys,
        canary=canary,
    )
    assert read_shard(task, path).canary["rows"] == manifest.facts["canary"]["rows"]
    footer, table = read_footer(path), pq.read_table(path, read_dictionary=["bundle_id", "route"])
    bent = table.set_column(2, "bundle_id", table["bundle_id"].combine_chunks().take(np.arange(len(table))[::-1]))
    with score_sink(path, {ROWS_DIGEST: footer[ROWS_DIGEST]}, pq.read_schema(path).remove_metadata()) as sink:
        sink.write(bent)
    with pytest.raises(CorruptError, match="does not hold scores of"):
        read_shard(task, path)


def test_an_incremental_day_with_a_canary_is_scored_in_full_and_nothing_is_carried_from_it(
    history: Any, day: dt.date, make_users: Any, canary: Canary
):
    table, layout = make_users(600), history.layout
    history.run(day, table)
    history.deal(day + NEXT, table)
    with_canary = score(layout, day + NEXT, history.bundle, history.settings, canary=canary)
    assert with_canary.notes["why_full"] == WHY_FULL
    assert "carrying" not in with_canary.facts
    history.publish(day + NEXT)
    rows = read_day(layout, day + NEXT).to_pylist()
    assert {row["route"] for row in rows} == {"full", "canary"}
    assert {row["bundle_id"] for row in rows if row["route"] == "canary"} == {canary.bundle_id}
    after = history.run(day + 2 * NEXT, table)
    assert after.facts["carrying"]["from"] == day.isoformat(), "from the last day that one bundle scored"
    assert {row["bundle_id"] for row in read_day(layout, day + 2 * NEXT).to_pylist()} == {history.bundle.name}
    missing = [one for one in history.table(day).items() if history.table(day + 2 * NEXT)[one[0]][0] != one[1][0]]
    assert missing == []
