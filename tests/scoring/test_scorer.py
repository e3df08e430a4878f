"""A score is its row's alone: the same bits in any company; and what is no probability is named, never written."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from profile_assets.errors import BundleError, ContractError, CorruptError, DataError, ProfileError, ScoringError
from profile_assets.features.encode import encode
from profile_assets.features.spec import FeatureSpec
from profile_assets.models.bundle import load_bundle
from profile_assets.scoring.devices import resolve, torch_threads
from profile_assets.scoring.scorer import BATCH_ROWS, SCORE_SCHEMA, UNKNOWN, Scorer, scorer_for
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.parquet import read_footer

MakeUsers = Callable[..., pa.Table]


class Odd(nn.Module):
    """Gives logits by `make(numeric)`."""

    def __init__(self, make: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        del categories
        return self.make(numeric)


def scorer_of(bundle_path: Path, settings: ScoringSettings, make: Callable[[Tensor], Tensor]) -> Scorer:
    """A scorer whose network is another one."""
    return Scorer(dataclasses.replace(load_bundle(bundle_path), inference=Odd(make)), settings)


def scores_of(scorer: Scorer, users: pa.Table) -> dict[str, bytes]:
    """User to the bits of the score."""
    scores = scorer.score(encode(users, scorer.bundle.spec))
    assert scores.dtype == np.float32
    return {name: score.tobytes() for name, score in zip(users.column("user_id").to_pylist(), scores, strict=True)}


@pytest.mark.parametrize("batch_rows", [512, 4096])
def test_a_score_is_the_same_bits_in_any_order_subset_and_company(
    bundle_path: Path, make_users: MakeUsers, batch_rows: int
) -> None:
    scorer = Scorer(load_bundle(bundle_path), ScoringSettings(batch_rows=batch_rows, device="cpu"))
    users = make_users(9000)
    wanted = scores_of(scorer, users)
    draw = np.random.default_rng(0)
    for _ in range(3):
        assert scores_of(scorer, users.take(draw.permutation(9000))) == wanted
    for size in (1, 2, 33, 511, 4097):
        some = users.take(draw.choice(9000, size, replace=False))
        assert scores_of(scorer, some).items() <= wanted.items()
    strangers = pa.concat_tables([make_users(300, seed=77).slice(0, 300), users.slice(123, 1)])
    assert scores_of(scorer, strangers)["000123"] == wanted["000123"]


def test_scores_are_those_of_the_network_as_it_was_trained(bundle_path: Path, make_users: MakeUsers) -> None:
    bundle = load_bundle(bundle_path)
    scorer = Scorer(bundle, ScoringSettings(batch_rows=256, device="cpu"))
    encoded = encode(make_users(1000), bundle.spec)
    with torch.inference_mode():
        logits = bundle.network(torch.from_numpy(encoded.numeric), torch.from_numpy(encoded.categories))
    np.testing.assert_allclose(scorer.score(encoded), torch.sigmoid(logits).numpy(), atol=1e-6, rtol=0)


def test_shapes_agree_within_a_millionth(bundle_path: Path, make_users: MakeUsers) -> None:
    encoded = encode(make_users(3000), load_bundle(bundle_path).spec)
    one, other = (
        Scorer(load_bundle(bundle_path), ScoringSettings(batch_rows=rows, device="cpu")).score(encoded)
        for rows in (256, 8192)
    )
    np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


def test_no_rows_give_no_scores(bundle_path: Path, small: ScoringSettings, make_users: MakeUsers) -> None:
    scorer = Scorer(load_bundle(bundle_path), small)
    assert scorer.score(encode(make_users(0), scorer.bundle.spec)).shape == (0,)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_no_probability_names_its_users(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, odd: float
) -> None:
    """An infinite logit gives 0 or 1, which is a probability; so the network is made to give NaN where it is asked."""
    users = make_users(600).set_column(1, "age", pa.array([*[40.0] * 300, 1000.0, *[40.0] * 299]))

    def logits(numeric: Tensor) -> Tensor:
        return torch.where(numeric[0] > 20, torch.tensor(odd) - torch.tensor(odd), torch.zeros(()))

    scorer = scorer_of(bundle_path, small, logits)
    with pytest.raises(ScoringError, match=r"1 of 600 rows .*user '000300': nan"):
        scorer.score(encode(users, scorer.bundle.spec), users.column("user_id"))
    with pytest.raises(ScoringError, match="row 300: nan"):
        scorer.score(encode(users, scorer.bundle.spec))


def test_many_odd_users_are_counted_and_a_few_are_named(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers
) -> None:
    scorer = scorer_of(bundle_path, small, lambda numeric: torch.full((numeric.shape[1],), torch.nan))
    users = make_users(600)
    with pytest.raises(ScoringError, match=r"600 of 600 rows") as caught:
        scorer.score(encode(users, scorer.bundle.spec), users.column("user_id"))
    assert caught.value.what.count("user '") == 5


def test_memory_that_does_not_hold_a_batch_halves_it(bundle_path: Path, make_users: MakeUsers) -> None:
    def within_1000(numeric: Tensor) -> Tensor:
        if numeric.shape[1] > 1000:
            raise torch.OutOfMemoryError("too many rows")
        return numeric[0]

    scorer = scorer_of(bundle_path, ScoringSettings(batch_rows=4096, device="cpu"), within_1000)
    assert scorer.batch_rows == 512
    encoded = encode(make_users(700), scorer.bundle.spec)
    np.testing.assert_allclose(scorer.score(encoded), 1 / (1 + np.exp(-encoded.numeric[0])), atol=1e-6)


def test_memory_that_holds_no_batch_at_all_is_said(bundle_path: Path, small: ScoringSettings) -> None:
    def never(numeric: Tensor) -> Tensor:
        raise torch.OutOfMemoryError(f"{numeric.shape}")

    with pytest.raises(ScoringError, match="no memory for 256 rows"):
        scorer_of(bundle_path, small, never)


def test_torch_has_as_many_threads_afterwards_as_before(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers
) -> None:
    with torch_threads(3):
        scorer = Scorer(load_bundle(bundle_path), small)
        scorer.score(encode(make_users(10), scorer.bundle.spec))
        assert torch.get_num_threads() == 3
        with pytest.raises(DataError), torch_threads(2):
            raise DataError("a row", remedy="look at it")
        assert torch.get_num_threads() == 3


def test_a_file_gets_its_ids_beside_their_scores(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path
) -> None:
    users = make_users(5000)
    pq.write_table(users, tmp_path / "users.parquet", row_group_size=700)
    scorer = Scorer(load_bundle(bundle_path), small)
    assert scorer.score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet", {"made": "here"}) == 5000
    table = pq.read_table(tmp_path / "scores.parquet")
    assert table.schema.equals(SCORE_SCHEMA)
    assert table.column("user_id").equals(users.column("user_id"))
    assert set(table.column("bundle_id").to_pylist()) == {bundle_path.name}
    found = dict(zip(table.column("user_id").to_pylist(), table.column("score").to_numpy(), strict=True))
    assert {name: score.tobytes() for name, score in found.items()} == scores_of(scorer, users)
    footer = read_footer(tmp_path / "scores.parquet")
    assert footer["made"] == "here"
    assert footer[BATCH_ROWS] == "256"
    assert json.loads(footer[UNKNOWN]) == encode(users, scorer.bundle.spec).unknown


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_text_in_any_layout_scores_the_same(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path, kind: pa.DataType
) -> None:
    scorer = Scorer(load_bundle(bundle_path), small)
    users = make_users(500)
    for place in (users.schema.get_field_index("plan"), users.schema.get_field_index("city")):
        users = users.set_column(place, users.schema.names[place], users.column(place).cast(kind))
    pq.write_table(users, tmp_path / "users.parquet")
    scorer.score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet")
    scores = pq.read_table(tmp_path / "scores.parquet").column("score").to_numpy()
    assert scores.tobytes() == scorer.score(encode(make_users(500), scorer.bundle.spec)).tobytes()


def test_columns_in_another_order_and_beside_the_features_change_nothing(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path
) -> None:
    scorer = Scorer(load_bundle(bundle_path), small)
    users = make_users(500)
    pq.write_table(users, tmp_path / "one.parquet")
    pq.write_table(users.select(users.column_names[::-1]), tmp_path / "two.parquet")
    for name in ("one", "two"):
        scorer.score_file(tmp_path / f"{name}.parquet", tmp_path / f"{name}-scores.parquet")
    one, two = (pq.read_table(tmp_path / f"{name}-scores.parquet") for name in ("one", "two"))
    assert one.equals(two)


def test_a_missing_column_is_named_and_leaves_no_whole_file(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path
) -> None:
    pq.write_table(make_users(500).drop_columns(["city", "age"]), tmp_path / "users.parquet")
    with pytest.raises(ContractError, match="column age is missing; column city is missing"):
        Scorer(load_bundle(bundle_path), small).score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet")


def test_an_infinite_value_names_its_user(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path
) -> None:
    users = make_users(500).set_column(1, "age", pa.array([*[40.0] * 499, np.inf]))
    pq.write_table(users, tmp_path / "users.parquet")
    with pytest.raises(DataError, match="column age holds inf for user '000499'"):
        Scorer(load_bundle(bundle_path), small).score_file(tmp_path / "users.parquet", tmp_path / "scores.parquet")


def test_a_flipped_bit_in_the_users_is_found(
    bundle_path: Path, small: ScoringSettings, make_users: MakeUsers, tmp_path: Path
) -> None:
    path = tmp_path / "users.parquet"
    pq.write_table(make_users(5000), path, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptError, match=r"users\.parquet"):
        Scorer(load_bundle(bundle_path), small).score_file(path, tmp_path / "scores.parquet")


def test_a_bundle_is_loaded_once(bundle_path: Path, small: ScoringSettings) -> None:
    first = scorer_for(bundle_path, small)
    assert scorer_for(bundle_path, small) is first
    assert scorer_for(bundle_path, dataclasses.replace(small, batch_rows=512)) is not first


def test_a_bundle_cut_short_is_not_loaded(bundle_path: Path, small: ScoringSettings, tmp_path: Path) -> None:
    broken = tmp_path / bundle_path.name
    broken.mkdir()
    for path in bundle_path.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    os.truncate(broken / "weights.safetensors", 100)
    with pytest.raises(BundleError, match="weights"):
        scorer_for(broken, small)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said() -> None:
    with pytest.raises(ProfileError, match="torch sees no GPU"):
        resolve("cuda")
    assert resolve("auto") == "cpu"


def test_a_network_of_numbers_alone_and_one_of_text_alone_score(
    make_bundle: Callable[..., Path], spec: FeatureSpec, small: ScoringSettings, make_users: MakeUsers
) -> None:
    for some in (dataclasses.replace(spec, categorical=()), dataclasses.replace(spec, numeric=())):
        scorer = Scorer(load_bundle(make_bundle(spec=some)), small)
        assert scorer.score(encode(make_users(300), some)).shape == (300,)
