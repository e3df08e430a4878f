"""Repeated users are found exactly, however many rows go by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from profile_assets.storage.keys import md5_words
from profile_assets.users.repeats import Repeats, rows_to_drop

PARTS = st.lists(st.lists(st.text("abc", min_size=1, max_size=2), max_size=8), max_size=5)


def arrays(parts: list[list[str]]) -> list[pa.Array]:
    return [pa.array(part, pa.string()) for part in parts]


@given(PARTS)
def test_one_row_of_each_user_stays(parts: list[list[str]]) -> None:
    repeats = Repeats()
    for part in arrays(parts):
        repeats.add(part)
    suspects = repeats.suspects()
    users = [user for part in parts for user in part]
    for keep, seen in (("first", users), ("last", users[::-1])):
        dropped = set(rows_to_drop(arrays(parts), suspects, keep).tolist())
        stay = [row for row in range(len(users)) if row not in dropped]
        first = {user: seen.index(user) for user in users}
        wanted = sorted(place if keep == "first" else len(users) - 1 - place for place in first.values())
        assert stay == wanted


def test_users_who_only_share_a_word_both_stay() -> None:
    ids = pa.array(["a", "b", "a"])
    suspects = np.unique(md5_words(ids)[:, 0])
    assert rows_to_drop([ids], suspects, "first").tolist() == [2]


def test_no_rows_have_no_repeats() -> None:
    assert len(Repeats().suspects()) == 0
