"""What readers get after a day went through Dagster: every customer once, with the score that the bundle gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from profile_assets.feature_store.read import lookup, read_day


def source_of(world: Any, day: Any) -> pa.Table:
    return pq.read_table(world.deployment.root / "demo" / "users" / f"day={day}" / "part-0.parquet", partitioning=None)


def test_four_readers_see_each_customer_of_the_source_once(demo_world):
    day = demo_world.days[-1]
    offline = demo_world.deployment.layout.offline
    ids = sorted(source_of(demo_world, day).column("user_id").to_pylist())
    assert len(ids) == 23_570
    arrow = ds.dataset(offline, partitioning="hive").to_table(filter=ds.field("ds") == str(day))
    pandas = pd.read_parquet(offline, filters=[("ds", "=", str(day))])
    duck = duckdb.sql(
        f"select user_id from read_parquet('{offline}/**/*.parquet', hive_partitioning=true) where ds = '{day}'"
    )
    polars = pl.scan_parquet(f"{offline}/**/*.parquet", hive_partitioning=True).filter(pl.col("ds") == day).collect()
    for seen in (
        arrow["user_id"].to_pylist(),
        pandas["user_id"],
        [row[0] for row in duck.fetchall()],
        polars["user_id"],
    ):
        assert sorted(seen) == ids


def test_the_score_is_the_one_that_a_hand_gets_from_the_bundle(demo_world):
    """numpy and the bundle's files alone: none of the package's code is asked."""
    day, layout = demo_world.days[-1], demo_world.deployment.layout
    published = read_day(layout, day).to_pandas().set_index("user_id")["score"]
    (bundle,) = [path for path in layout.models.iterdir() if path.is_dir()]
    by_hand = hand_scores(bundle, source_of(demo_world, day).to_pandas().set_index("user_id"))
    np.testing.assert_allclose(published.loc[by_hand.index], by_hand, atol=1e-6, rtol=0)


def hand_scores(bundle: Path, users: pd.DataFrame) -> pd.Series:
    """The wide-and-deep network written out, one feature after the other, in float64."""
    spec, weights = json.loads((bundle / "feature_spec.json").read_text()), load_file(bundle / "weights.safetensors")
    values, missing = [], []
    for feature in spec["numeric"]:
        column = users[feature["name"]].astype("float64").to_numpy()
        if feature["transform"] == "log1p":
            column = np.sign(column) * np.log1p(np.abs(column))
        missing.append(np.isnan(column).astype("float64"))
        values.append(np.nan_to_num((column - feature["mean"]) / feature["std"], nan=0.0))
    numeric = np.stack([*values, *missing], axis=1)
    inputs, linear, start = [numeric], numeric @ weights["linear_numeric"], 0
    for feature in spec["categorical"]:
        slots = {value: 2 + place for place, value in enumerate(feature["vocabulary"])}
        chosen = start + users[feature["name"]].map(lambda value, slots=slots: slots.get(value, 0)).to_numpy()
        inputs.append(weights["embeddings"][chosen])
        linear += weights["linear_slots"][chosen]
        start += 2 + len(feature["vocabulary"])
    hidden = np.concatenate(inputs, axis=1) @ weights["first.weight"].T + weights["first.bias"]
    for layer in ("rest.2", "rest.5"):
        hidden = np.maximum(hidden, 0) @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
    return pd.Series(1 / (1 + np.exp(-(linear + hidden[:, 0]))), index=users.index)


def test_a_lookup_gives_the_row_of_the_newest_day(demo_world):
    layout, day = demo_world.deployment.layout, demo_world.days[-1]
    row = read_day(layout, day).slice(7, 1).to_pylist()[0]
    found = lookup(layout, row["user_id"])
    assert found is not None
    assert found["score"] == row["score"]


def test_the_days_differ_but_have_the_same_customers(demo_world):
    layout = demo_world.deployment.layout
    tables = [read_day(layout, day).sort_by("user_id") for day in demo_world.days]
    assert tables[0]["user_id"].equals(tables[2]["user_id"])
    assert not tables[0]["score"].equals(tables[2]["score"])
    assert {value for table in tables for value in table["bundle_id"].unique().to_pylist()} == {
        table["bundle_id"][0].as_py() for table in tables
    }
