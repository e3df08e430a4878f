"""A day that carries scores: the same bits as in full, whatever changed; and in full where nothing may be carried."""

from __future__ import annotations

import dataclasses
import datetime as dt
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_assets.feature_store.withdraw import withdraw
from profile_assets.scoring import day as days
from profile_assets.scoring.carrying import DIGEST_COLUMN
from profile_assets.scoring.scorer import CARRIED_SCHEMA, SCORE_SCHEMA, scorer_for
from profile_assets.storage import atomic
from profile_assets.storage.layout import USER_SCORES, USER_SHARDS, Layout, shard_file
from profile_assets.storage.stages import Staged, commit

if TYPE_CHECKING:
    from tests.scoring.conftest import History

MakeUsers = Callable[..., pa.Table]
DAY = dt.date(2026, 1, 5)
NEXT = DAY + dt.timedelta(days=1)
ONE_DAY = dt.timedelta(days=1)


def carrying(staged: Staged) -> dict[str, object]:
    return dict(staged.manifest.facts["carrying"])


def why_full(staged: Staged) -> str:
    return str(staged.manifest.notes["carrying"]["why_full"])


def with_values(users: pa.Table, name: str, values: dict[int, object]) -> pa.Table:
    """The same users, some rows of one column changed."""
    column = users.column(name).to_pylist()
    for row, value in values.items():
        column[row] = value
    place = users.column_names.index(name)
    return users.set_column(place, users.schema.field(name), pa.array(column, users.schema.field(name).type))


def renamed(users: pa.Table, prefix: str) -> pa.Table:
    ids = pc.binary_join_element_wise(prefix, users.column("user_id"), "")
    return users.set_column(0, "user_id", ids)


@st.composite
def changes(draw: st.DrawFn) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """What may become of the users of a day until the next: given them, and users that were never there."""
    cells = draw(
        st.lists(
            st.tuples(
                st.integers(0, 299),
                st.one_of(
                    st.tuples(st.just("age"), st.none() | st.floats(0, 100)),
                    st.tuples(st.just("orders"), st.none() | st.integers(0, 50)),
                    st.tuples(st.just("spent"), st.none() | st.floats(0, 1000, width=32)),
                    st.tuples(st.just("plan"), st.sampled_from([None, "free", "gold", "never seen"])),
                    st.tuples(st.just("city"), st.sampled_from([None, "city 1", "city 499", ""])),
                    st.tuples(st.just("comment"), st.just("no feature")),
                ),
            ),
            max_size=12,
        )
    )
    gone = draw(st.sets(st.integers(0, 299), max_size=20))
    added = draw(st.integers(0, 20))
    seed = draw(st.none() | st.integers(0, 5))

    def change(users: pa.Table, new: pa.Table) -> pa.Table:
        for row, (name, value) in cells:
            users = with_values(users, name, {row: value})
        users = users.take([row for row in range(users.num_rows) if row not in gone])
        users = pa.concat_tables([users, new.slice(0, added)])
        return users if seed is None else users.take(np.random.default_rng(seed).permutation(users.num_rows))

    return change


@settings(max_examples=12)
@given(change=changes(), shards=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_a_day_has_the_same_bits_whichever_way_it_is_scored(
    change: Callable[[pa.Table, pa.Table], pa.Table],
    shards: tuple[int, int],
    make_users: MakeUsers,
    make_history: Callable[[Layout], History],
):
    users = make_users(300)
    today = change(users, renamed(make_users(20, seed=9), "new "))
    with tempfile.TemporaryDirectory() as root:
        own = make_history(Layout(root=Path(root), name="purchase"))
        full, incremental = own.in_mode("full"), own.in_mode("incremental")
        for history in (full, incremental):
            history.run(DAY, users, shards[0])
        manifest = incremental.run(NEXT, today, shards[1])
        full.run(NEXT, today, shards[1])
        found, expected = incremental.table(NEXT), full.table(NEXT)
    assert {user: score for user, (score, _) in found.items()} == {user: score for user, (score, _) in expected.items()}
    before = {row["user_id"]: row for row in users.drop("comment").to_pylist()}
    unchanged = {row["user_id"] for row in today.drop("comment").to_pylist() if row == before.get(row["user_id"])}
    assert unchanged <= {user for user, (_, route) in found.items() if route == "carried"}
    told = manifest.facts["carrying"]
    assert told["from"] == DAY.isoformat()
    assert told["carried"] + told["scored"] == today.num_rows
    assert told["new"] == len(set(today.column("user_id").to_pylist()) - before.keys())
    assert told["gone"] == len(before.keys() - set(today.column("user_id").to_pylist()))


def test_the_first_day_is_scored_in_full_and_kept_for_the_next(history: History, make_users: MakeUsers):
    history.deal(DAY, make_users(400))
    staged = history.score(DAY)
    assert carrying(staged) == {"from": None, "carried": 0, "scored": 400, "new": 400, "gone": 0}
    assert why_full(staged) == f"nothing is published of a day before {DAY}"
    for name in (shard_file(0, 4), shard_file(3, 4)):
        assert pq.read_schema(staged.folder / name).remove_metadata().equals(CARRIED_SCHEMA)


def test_only_the_changed_users_pass_through_the_network(history: History, make_users: MakeUsers):
    users = make_users(6000)
    history.run(DAY, users)
    scorer = scorer_for(history.bundle, dataclasses.replace(history.settings, mode="full"))
    before = scorer.forwards
    manifest = history.run(NEXT, with_values(users, "orders", dict.fromkeys(range(0, 6000, 20), 49)))
    assert manifest.facts["carrying"]["scored"] == 300
    assert scorer.forwards - before == 4, "a quarter of 300 users in each of 4 shards: a batch of 256 each"


def test_a_raw_row_that_moves_in_no_feature_is_carried(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    manifest = history.run(NEXT, with_values(users, "comment", dict.fromkeys(range(300), "changed")))
    assert manifest.facts["carrying"]["carried"] == 300
    assert {route for _, route in history.table(NEXT).values()} == {"carried"}
    assert {route for _, route in history.table(DAY).values()} == {"full"}


def test_a_row_that_changed_under_an_old_time_of_update_is_found(history: History, make_users: MakeUsers):
    stamps = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * 300)
    users = make_users(300).append_column("updated_at", stamps)
    history.run(DAY, users)
    history.run(NEXT, with_values(users, "orders", {7: 49}))
    table = history.table(NEXT)
    assert [user for user, (_, route) in table.items() if route == "full"] == ["000007"]
    assert table["000007"][0] != history.table(DAY)["000007"][0]


def test_what_was_carried_is_carried_on(history: History, make_users: MakeUsers):
    users = make_users(300)
    first = history.run(DAY, users)
    for later in range(1, 4):
        manifest = history.run(DAY + later * ONE_DAY, users)
        assert manifest.facts["carrying"]["from"] == (DAY + (later - 1) * ONE_DAY).isoformat()
        assert manifest.facts["carrying"]["carried"] == 300
    last = history.table(DAY + 3 * ONE_DAY)
    assert {user: score for user, (score, _) in last.items()} == {
        user: score for user, (score, _) in history.table(DAY).items()
    }
    assert first.facts["carrying"]["from"] is None


def test_processes_of_their_own_carry_the_same(history: History, make_users: MakeUsers):
    users, today = make_users(600), with_values(make_users(600), "orders", dict.fromkeys(range(0, 600, 9), 49))
    history.run(DAY, users)
    history.deal(NEXT, today)
    here = history.score(NEXT).manifest
    (history.layout.staging(USER_SCORES, NEXT) / "manifest.json").unlink()
    for path in history.layout.staging(USER_SCORES, NEXT).iterdir():
        path.unlink()
    elsewhere = dataclasses.replace(history, settings=dataclasses.replace(history.settings, workers=2))
    there = elsewhere.score(NEXT).manifest
    assert there.notes["scored"] == 4
    assert there.digest == here.digest


def test_another_bundle_carries_nothing(history: History, make_users: MakeUsers, make_bundle: Callable[..., Path]):
    users = make_users(300)
    history.run(DAY, users)
    history.deal(NEXT, users)
    staged = history.score(NEXT, bundle=make_bundle(seed=4))
    assert why_full(staged) == f"{DAY}: scored by the bundle {history.bundle.name}"
    assert carrying(staged)["carried"] == 0


def test_another_version_of_the_code_carries_nothing(
    history: History, make_users: MakeUsers, monkeypatch: pytest.MonkeyPatch
):
    users = make_users(300)
    history.run(DAY, users)
    history.deal(NEXT, users)
    monkeypatch.setattr(days, "code_version", lambda: "another")
    staged = history.score(NEXT)
    assert why_full(staged) == f"{DAY}: scored by another version of the code"
    assert carrying(staged)["carried"] == 0


def test_another_shape_of_a_forward_carries_nothing(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    wider = dataclasses.replace(history, settings=dataclasses.replace(history.settings, batch_rows=512))
    wider.deal(NEXT, users)
    assert why_full(wider.score(NEXT)) == f"{DAY}: scored with other settings, or on another kind of machine"


def test_a_day_that_was_scored_in_full_mode_has_nothing_to_carry_by(history: History, make_users: MakeUsers):
    users = make_users(300)
    full = dataclasses.replace(history, settings=dataclasses.replace(history.settings, mode="full"))
    full.run(DAY, users)
    history.deal(NEXT, users)
    staged = history.score(NEXT)
    assert why_full(staged) == f"{DAY}: scored in full mode, which keeps no digests of the model's input"
    assert pq.read_schema(history.layout.stage(USER_SCORES, DAY) / shard_file(0, 4)).names == SCORE_SCHEMA.names


def test_a_day_that_is_scored_but_not_published_is_not_carried_from(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    history.deal(NEXT, users)
    commit(history.layout, NEXT, history.score(NEXT))
    later = NEXT + ONE_DAY
    history.deal(later, users)
    assert carrying(history.score(later))["from"] == DAY.isoformat()


def test_in_a_backfill_out_of_order_a_later_day_is_no_earlier_day(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(NEXT, users)
    history.deal(DAY, users)
    assert why_full(history.score(DAY)) == f"nothing is published of a day before {DAY}"


def test_a_day_that_was_withdrawn_is_not_carried_from(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    now = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    withdraw(history.layout, DAY, why="wrong", by="me", now=now, others={})
    history.deal(NEXT, users)
    assert carrying(history.score(NEXT))["from"] is None


def test_a_day_that_was_scored_again_since_it_was_published_is_not_carried_from(
    history: History, make_users: MakeUsers
):
    history.run(DAY, make_users(300))
    history.deal(DAY, make_users(300, seed=6))
    commit(history.layout, DAY, history.score(DAY))
    history.deal(NEXT, make_users(300))
    assert why_full(history.score(NEXT)) == f"{DAY}: the scores on disk are not those that were published"


def test_a_day_whose_verdict_is_gone_is_not_carried_from(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    history.layout.verdict(DAY).unlink()
    history.deal(NEXT, users)
    assert why_full(history.score(NEXT)) == f"{DAY}: its verdict is gone"


def test_a_damaged_score_file_is_not_carried_from(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    damaged = history.layout.stage(USER_SCORES, DAY) / shard_file(2, 4)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    history.deal(NEXT, users)
    staged = history.score(NEXT)
    assert why_full(staged) == f"{DAY}: {shard_file(2, 4)} is not the file that its manifest describes"
    assert carrying(staged)["carried"] == 0


def test_a_day_that_is_being_scored_is_not_waited_for(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    history.deal(NEXT, users)
    with atomic.locked(history.layout.day_lock(USER_SCORES, DAY), what="the day"):
        assert why_full(history.score(NEXT)) == f"{DAY}: it is being scored at this moment"


def test_the_day_before_is_passed_over_where_one_before_it_can_be_carried_from(
    history: History, make_users: MakeUsers, make_bundle: Callable[..., Path]
):
    users = make_users(300)
    history.run(DAY, users)
    dataclasses.replace(history, bundle=make_bundle(seed=4)).run(NEXT, users)
    later = NEXT + ONE_DAY
    history.deal(later, users)
    assert carrying(history.score(later))["from"] == DAY.isoformat()


def test_the_same_day_again_is_left_as_it_is(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    manifest = history.run(NEXT, users)
    again = history.score(NEXT)
    assert (again.folder, again.manifest.digest) == (history.layout.stage(USER_SCORES, NEXT), manifest.digest)
    assert again.manifest.notes["scored"] == 0


def test_a_day_that_died_goes_on_where_it_was(history: History, make_users: MakeUsers):
    users = make_users(600)
    history.run(DAY, users)
    history.deal(NEXT, with_values(users, "orders", {5: 49}))
    first = history.score(NEXT)
    (first.folder / shard_file(1, 4)).unlink()
    again = history.score(NEXT)
    assert (again.manifest.notes["scored"], again.manifest.notes["kept"]) == (1, 3)
    assert again.manifest.digest == first.manifest.digest


def test_what_was_carried_from_scores_that_were_replaced_is_not_kept(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    history.run(NEXT, users)
    history.run(DAY, with_values(users, "orders", {5: 49}))
    again = history.score(NEXT)
    assert again.manifest.notes["kept"] == 0
    assert (carrying(again)["from"], carrying(again)["carried"]) == (DAY.isoformat(), 299)


def test_which_features_moved_is_seen_in_a_sample(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users, 1)
    aged = pc.add(users.column("age"), 1.0)
    older = users.set_column(1, "age", aged)
    manifest = history.run(NEXT, with_values(older, "plan", {1: None, 2: "never seen"}), 1)
    told = manifest.notes["carrying"]
    assert told["looked_at"] == 300
    known = 300 - users.column("age").null_count
    assert told["moved"]["age"] == known
    assert told["moved"]["orders"] == told["moved"]["spent"] == told["moved"]["city"] == 0
    assert 1 <= told["moved"]["plan"] <= 2
    assert manifest.facts["carrying"]["carried"] == 300 - known - len({1, 2} & null_rows(users, "age"))


def null_rows(users: pa.Table, name: str) -> set[int]:
    return {row for row, value in enumerate(users.column(name).to_pylist()) if value is None}


@pytest.mark.parametrize("damage", ["gone", "garbage", "without a feature"])
def test_a_look_at_the_features_never_stops_a_day(history: History, make_users: MakeUsers, damage: str):
    users = make_users(300)
    history.run(DAY, users)
    shard = history.layout.stage(USER_SHARDS, DAY) / shard_file(0, 4)
    if damage == "gone":
        shard.unlink()
    elif damage == "garbage":
        shard.write_bytes(b"PAR1 and then nothing PAR1")
    else:
        pq.write_table(pq.read_table(shard).drop("age"), shard)
    manifest = history.run(NEXT, users)
    assert manifest.facts["carrying"]["carried"] == 300
    assert manifest.notes["carrying"]["looked_at"] == 0


def test_every_row_has_the_digest_of_its_input(history: History, make_users: MakeUsers):
    users = make_users(300)
    history.run(DAY, users)
    history.run(NEXT, users)
    both = [
        pq.read_table(history.layout.stage(USER_SCORES, day) / shard_file(0, 4), columns=["user_id", DIGEST_COLUMN])
        for day in (DAY, NEXT)
    ]
    assert both[0].equals(both[1])
