"""A day's scores: complete, resumed where they stopped, redone where anything that matters has changed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import AccountingError, BundleError, CorruptError, DataError, DiskError
from profile_assets.scoring import day as days
from profile_assets.scoring.day import ShardDone, score_day
from profile_assets.scoring.engines.here import score_here
from profile_assets.scoring.scorer import SCORE_SCHEMA, Scorer, score_sink, scorer_for
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.scoring.shard import ShardResult, ShardTask
from profile_assets.storage.layout import MANIFEST_FILE, USER_SCORES, USER_SHARDS, Layout, shard_file
from profile_assets.storage.parquet import read_footer
from profile_assets.storage.records import Manifest, read_manifest
from profile_assets.storage.stages import Staged, commit, require

Deal = Callable[[pa.Table, int], Manifest]
MakeUsers = Callable[..., pa.Table]
Run = Callable[..., tuple[Staged, list[str]]]
Results = Generator[ShardResult, None, None]


@pytest.fixture
def run(layout: Layout, day: dt.date, bundle_path: Path, small: ScoringSettings) -> Run:
    """Scores the day; gives the staged scores and the names of the shards that were really scored."""

    def run(bundle: Path = bundle_path, settings: ScoringSettings = small) -> tuple[Staged, list[str]]:
        scored: list[str] = []

        def note(done: ShardDone) -> None:
            if not done.is_kept:
                scored.append(done.name)

        return score_day(layout, day, bundle, settings, progress=note), scored

    return run


def names(count: int) -> list[str]:
    return [shard_file(index, count) for index in range(count)]


def test_every_user_gets_one_score_and_the_manifest_says_from_what(
    layout: Layout,
    day: dt.date,
    deal: Deal,
    run: Run,
    make_users: MakeUsers,
    bundle_path: Path,
    small: ScoringSettings,
    read_scores: Callable[[Path, Manifest], dict[str, float]],
) -> None:
    users = make_users(3000)
    shards = deal(users, 16)
    staged, scored = run()
    assert scored == names(16)
    assert staged.folder == layout.staging(USER_SCORES, day)
    assert read_manifest(staged.folder / MANIFEST_FILE) == staged.manifest
    manifest = staged.manifest
    assert (manifest.rows, manifest.keys) == (3000, shards.keys)
    assert [entry.keys for entry in manifest.files] == [entry.keys for entry in shards.files]
    assert manifest.made_from == {
        USER_SHARDS: shards.digest,
        "bundle": bundle_path.name,
        "code": manifest.facts["code_version"],
    }
    assert manifest.facts["bundle_id"] == bundle_path.name
    assert (manifest.notes["scored"], manifest.notes["kept"]) == (16, 0)
    scores = read_scores(staged.folder, manifest)
    whole = layout.root / "whole.parquet"
    pq.write_table(users, layout.root / "users.parquet")
    scorer_for(bundle_path, small).score_file(layout.root / "users.parquet", whole)
    table = pq.read_table(whole)
    assert scores == dict(zip(table.column("user_id").to_pylist(), table.column("score").to_pylist(), strict=True))


def test_unknown_categories_are_counted_over_all_shards(deal: Deal, run: Run, make_users: MakeUsers) -> None:
    users = make_users(300)
    deal(users.set_column(4, "plan", pa.array(["platinum"] * 40 + ["free"] * 260)), 4)
    assert run()[0].manifest.facts["unknown"]["plan"] == 40


def test_progress_counts_to_the_total(
    layout: Layout, day: dt.date, deal: Deal, make_users: MakeUsers, bundle_path: Path, small: ScoringSettings
) -> None:
    deal(make_users(200), 4)
    told: list[ShardDone] = []
    score_day(layout, day, bundle_path, small, progress=told.append)
    assert [(one.done, one.total, one.is_kept) for one in told] == [(number, 4, False) for number in range(1, 5)]
    assert sum(one.rows for one in told) == 200


@pytest.mark.parametrize("where", ["staged", "committed"])
def test_the_last_of_16_shards_is_scored_alone(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers, where: str
) -> None:
    deal(make_users(1000), 16)
    first, _ = run()
    folder = first.folder
    if where == "committed":
        commit(layout, day, first)
        folder = layout.stage(USER_SCORES, day)
    (folder / names(16)[15]).unlink()
    (folder / MANIFEST_FILE).unlink()
    again, scored = run()
    assert scored == names(16)[15:]
    assert again.manifest.digest == first.manifest.digest
    assert (again.manifest.notes["scored"], again.manifest.notes["kept"]) == (1, 15)


@pytest.mark.parametrize("where", ["staged", "committed"])
@pytest.mark.parametrize("damage", ["one byte", "to 8 bytes", "empty", "a bit", "gone", "a folder"])
def test_a_damaged_file_is_scored_alone(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers, damage: str, where: str
) -> None:
    deal(make_users(1000), 4)
    first, _ = run()
    folder = first.folder
    if where == "committed":
        commit(layout, day, first)
        folder = layout.stage(USER_SCORES, day)
    damaged = folder / names(4)[1]
    spoil(damaged, damage)
    again, scored = run()
    assert scored == [names(4)[1]]
    assert commit(layout, day, again).digest == first.manifest.digest
    assert require(layout, USER_SCORES, day).digest == first.manifest.digest


def spoil(path: Path, damage: str) -> None:
    size = path.stat().st_size
    if damage in ("gone", "a folder"):
        path.unlink()
        if damage == "a folder":
            path.mkdir()
    elif damage == "a bit":
        content = bytearray(path.read_bytes())
        content[size // 2] ^= 4
        path.write_bytes(content)
    else:
        os.truncate(path, {"one byte": size - 1, "to 8 bytes": 8, "empty": 0}[damage])


@pytest.mark.parametrize("where", ["staged", "committed", "committed, no manifest", "committed, manifest edited"])
@pytest.mark.parametrize("change", ["shifted", "nan", "swapped", "null", "bundle"])
def test_a_score_file_rewritten_in_place_with_its_footer_is_scored_again_alone(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers, change: str, where: str
) -> None:
    deal(make_users(1000), 4)
    first, _ = run()
    folder = first.folder
    if where != "staged":
        commit(layout, day, first)
        folder = layout.stage(USER_SCORES, day)
    rescore(folder / names(4)[1], change)
    if where.endswith("no manifest"):
        (folder / MANIFEST_FILE).unlink()
    if where.endswith("edited"):
        text = (folder / MANIFEST_FILE).read_text(encoding="utf-8")
        (folder / MANIFEST_FILE).write_text(text.replace("2026-01-05", "2026-01-06"), encoding="utf-8")
    again, scored = run()
    assert scored == [names(4)[1]]
    assert commit(layout, day, again).digest == first.manifest.digest
    assert require(layout, USER_SCORES, day).digest == first.manifest.digest


def rescore(path: Path, change: str) -> None:
    """The file with other scores; its ids, their order and its whole footer as they were."""
    table, footer = pq.read_table(path), read_footer(path)
    scores, bundles = table.column("score").to_numpy().copy(), table.column("bundle_id")
    scores[3] = {"shifted": scores[3] + np.float32(0.001), "nan": np.nan}.get(change, scores[3])
    if change == "swapped":
        scores[[3, 4]] = scores[[4, 3]]
    if change == "bundle":
        bundles = pa.array(["b-other"] * len(scores)).dictionary_encode()
    mask = np.arange(len(scores)) == (3 if change == "null" else -1)
    columns = [table.column("user_id"), pa.array(scores, pa.float32(), mask=mask), bundles]
    with score_sink(path, footer) as sink:
        sink.write(pa.table(columns, schema=SCORE_SCHEMA))


def test_what_is_committed_and_unchanged_is_handed_back(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    deal(make_users(500), 4)
    first = commit(layout, day, run()[0])
    folder = layout.stage(USER_SCORES, day)
    for stage in (USER_SHARDS, USER_SCORES):
        for path in layout.stage(stage, day).iterdir():
            os.utime(path, (0, 0))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again, scored = run()
    assert (scored, again.folder) == ([], folder)
    assert (again.manifest.notes["scored"], again.manifest.notes["kept"]) == (0, 4)
    assert commit(layout, day, again).digest == first.digest
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_touched_files_are_not_scored_again(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    deal(make_users(500), 4)
    first, _ = run()
    for folder in (first.folder, layout.stage(USER_SHARDS, day)):
        for path in folder.iterdir():
            os.utime(path, (0, 0))
    again, scored = run()
    assert scored == []
    assert again.manifest.digest == first.manifest.digest


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("cause", ["users", "bundle", "code", "shape"])
def test_whatever_moves_a_score_has_all_of_it_done_again(
    layout: Layout,
    day: dt.date,
    deal: Deal,
    run: Run,
    make_users: MakeUsers,
    make_bundle: Callable[..., Path],
    bundle_path: Path,
    small: ScoringSettings,
    monkeypatch: pytest.MonkeyPatch,
    cause: str,
    is_committed: bool,
) -> None:
    deal(make_users(500), 4)
    first, _ = run()
    if is_committed:
        commit(layout, day, first)
    bundle, settings = bundle_path, small
    if cause == "users":
        deal(make_users(500, seed=6), 4)
    elif cause == "bundle":
        bundle = make_bundle(seed=4)
    elif cause == "code":
        monkeypatch.setattr(days, "code_version", lambda: "another")
    else:
        settings = dataclasses.replace(small, batch_rows=512)
    again, scored = run(bundle, settings)
    assert scored == names(4)
    assert again.manifest.digest != first.manifest.digest
    assert again.manifest.keys == first.manifest.keys


def test_one_changed_user_has_its_shard_done_again_alone(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    users = make_users(500)
    deal(users, 4)
    commit(layout, day, run()[0])
    age = users.column("age").to_numpy().copy()
    age[17] = 80.0
    shards = deal(users.set_column(1, "age", pa.array(age, mask=np.isnan(age))), 4)
    again, scored = run()
    assert len(scored) == 1
    assert "000017" in pq.read_table(again.folder / scored[0]).column("user_id").to_pylist()
    assert again.manifest.made_from[USER_SHARDS] == shards.digest


def test_fewer_shards_leave_nothing_of_the_old(
    layout: Layout,
    day: dt.date,
    deal: Deal,
    run: Run,
    make_users: MakeUsers,
    read_scores: Callable[[Path, Manifest], dict[str, float]],
) -> None:
    deal(make_users(500), 16)
    first = run()[0]
    wanted = read_scores(first.folder, first.manifest)
    commit(layout, day, first)
    deal(make_users(500), 4)
    manifest = commit(layout, day, run()[0])
    folder = layout.stage(USER_SCORES, day)
    assert {path.name for path in folder.iterdir()} == {MANIFEST_FILE, *names(4)}
    assert read_scores(folder, manifest) == wanted


def test_leftovers_in_staging_do_not_come_in(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    deal(make_users(500), 4)
    folder = layout.staging(USER_SCORES, day)
    (folder / "folder").mkdir(parents=True)
    (folder / names(9)[3]).write_bytes(b"of another number of shards")
    (folder / MANIFEST_FILE).write_text("{}", encoding="utf-8")
    (folder / names(4)[2]).write_bytes(b"PAR1half")
    staged, scored = run()
    assert scored == names(4)
    assert {path.name for path in staged.folder.iterdir()} == {MANIFEST_FILE, *names(4)}


def test_a_whole_file_of_another_shard_does_not_pass_for_this_one(deal: Deal, run: Run, make_users: MakeUsers) -> None:
    deal(make_users(500), 4)
    first, _ = run()
    shutil.copyfile(first.folder / names(4)[0], first.folder / names(4)[1])
    again, scored = run()
    assert scored == [names(4)[1]]
    assert again.manifest.digest == first.manifest.digest


def test_zero_users_are_scored_as_n_empty_files(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    deal(make_users(0), 4)
    staged, scored = run()
    assert scored == names(4)
    assert [pq.read_table(staged.folder / name).num_rows for name in names(4)] == [0] * 4
    assert commit(layout, day, staged).rows == 0


def test_more_shards_than_users_are_no_trouble(deal: Deal, run: Run, make_users: MakeUsers) -> None:
    deal(make_users(3), 16)
    assert run()[0].manifest.rows == 3


def test_nothing_in_the_making_is_left_lying(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    deal(make_users(100), 4)
    commit(layout, day, run()[0])
    assert [path for path in layout.staging_root.rglob("*") if path.is_file()] == []


def test_another_day_is_not_touched(layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers) -> None:
    deal(make_users(100), 4)
    other = layout.staging(USER_SCORES, day + dt.timedelta(days=1))
    other.mkdir(parents=True)
    (other / names(4)[0]).write_bytes(b"in the making")
    commit(layout, day, run()[0])
    assert (other / names(4)[0]).read_bytes() == b"in the making"


def test_shards_that_are_not_there_are_named(run: Run) -> None:
    with pytest.raises(DataError, match="user_shards of 2026-01-05 is not there"):
        run()


def test_shards_that_changed_under_their_manifest_are_refused(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    deal(make_users(100), 4)
    path = layout.stage(USER_SHARDS, day) / names(4)[2]
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(CorruptError, match="shard-02-of-04"):
        run()


def test_a_bundle_that_is_not_there_is_named(deal: Deal, run: Run, make_users: MakeUsers, tmp_path: Path) -> None:
    deal(make_users(100), 4)
    with pytest.raises(BundleError, match="b-0000000000000000"):
        run(tmp_path / "b-0000000000000000")


def test_an_error_in_one_shard_keeps_those_before_it(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers
) -> None:
    users = make_users(400)
    spent = users.column("spent").to_pylist()
    spent[123] = float("inf")
    deal(users.set_column(3, "spent", pa.array(spent, pa.float32())), 8)
    with pytest.raises(DataError, match="column spent holds inf for user '000123'"):
        run()
    finished = {path.name for path in layout.staging(USER_SCORES, day).iterdir()}
    assert finished == set(names(8)[: len(finished)])
    assert not layout.stage(USER_SCORES, day).exists()


def test_an_engine_that_loses_a_shard_fails_the_day(
    layout: Layout, day: dt.date, deal: Deal, make_users: MakeUsers, bundle_path: Path, small: ScoringSettings
) -> None:
    def lossy(tasks: Sequence[ShardTask]) -> Results:
        yield from score_here(tasks[1:])

    deal(make_users(100), 4)
    with pytest.raises(AccountingError, match="no scores came back for shard-00-of-04"):
        score_day(layout, day, bundle_path, small, engine=lossy)


def test_an_engine_may_finish_in_any_order(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers, bundle_path: Path, small: ScoringSettings
) -> None:
    def backwards(tasks: Sequence[ShardTask]) -> Results:
        yield from score_here(tasks[::-1])

    deal(make_users(500), 4)
    wanted = run()[0].manifest.digest
    shutil.rmtree(layout.staging(USER_SCORES, day))
    assert score_day(layout, day, bundle_path, small, engine=backwards).manifest.digest == wanted


def test_scores_for_other_users_than_the_shard_holds_fail_the_day(
    deal: Deal, run: Run, make_users: MakeUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user lost and one doubled: the count is right, the users are not."""
    real = Scorer._encoded

    def bent(self: Scorer, source: Path) -> Generator[object, None, None]:
        for ids, encoded in real(self, source):
            yield pa.chunked_array([ids.slice(1).combine_chunks(), ids.slice(1, 1).combine_chunks()]), encoded

    monkeypatch.setattr(Scorer, "_encoded", bent)
    deal(make_users(100), 1)
    with pytest.raises(AccountingError, match="holds 100 users, its scores 100, or other users"):
        run()


def test_a_model_is_loaded_once_over_many_days(
    layout: Layout, deal: Deal, run: Run, make_users: MakeUsers, make_bundle: Callable[..., Path]
) -> None:
    bundle = make_bundle(seed=11)
    deal(make_users(100), 4)
    before = scorer_for.cache_info().misses
    for _ in range(3):
        shutil.rmtree(layout.staging_root)
        run(bundle)
    assert scorer_for.cache_info().misses == before + 1


def test_a_disk_without_room_for_what_is_to_be_scored_is_said_before_it_is_filled(
    layout: Layout, day: dt.date, deal: Deal, run: Run, make_users: MakeUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = deal(make_users(500), 4)
    needed = sum(entry.size_bytes + 4 * entry.rows for entry in shards.files)
    usage = shutil.disk_usage(layout.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed - 1))
    with pytest.raises(DiskError, match=f"user_scores of {day} needs about {needed:,} bytes, .* has {needed - 1:,} "):
        run()
    assert list(layout.staging(USER_SCORES, day).iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed))
    first = commit(layout, day, run()[0])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    assert commit(layout, day, run()[0]).digest == first.digest
