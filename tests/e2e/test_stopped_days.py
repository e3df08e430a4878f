"""Days that must not be seen, and days that died: through Dagster, on the real customers."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import DataError
from profile_assets.feature_store.read import read_day
from profile_assets.storage.published import published_days


def source_file(world, day):
    return world.deployment.root / "demo" / "users" / f"day={day}" / "part-0.parquet"


def rewrite(path, change):
    table = pq.ParquetFile(path).read()
    pq.write_table(change(table), path)


def materialized(world, day) -> set[str]:
    """The stages that Dagster holds to be materialized for a day."""
    graph = world.session.definitions.resolve_asset_graph()
    return {
        key.path[-1]
        for key in graph.get_all_asset_keys()
        if str(day) in world.instance.get_materialized_partitions(key)
    }


def test_a_day_with_too_many_nulls_is_not_seen_and_not_materialized(fresh_world):
    day = fresh_world.days[-1]

    def lose_values(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index("order_pace")
        return table.set_column(index, "order_pace", pa.nulls(table.num_rows, pa.string()))

    rewrite(source_file(fresh_world, day), lose_values)
    with pytest.raises(DataError, match="null_rates"):
        fresh_world.session.score(day)
    assert published_days(fresh_world.deployment.layout) == []
    assert materialized(fresh_world, day) == {"raw_users"}
    check = dg.AssetCheckKey(dg.AssetKey(["purchase_30d", "user_shards"]), "null_rates")
    records = fresh_world.instance.event_log_storage.get_asset_check_execution_history(check, limit=5)
    assert [record.status.value for record in records] == ["FAILED"]


def test_half_of_the_customers_fail_the_day_and_yesterday_stays(fresh_world):
    before, day = fresh_world.days[-2:]
    fresh_world.session.score(before)
    rewrite(source_file(fresh_world, day), lambda table: table.slice(0, table.num_rows // 2))
    with pytest.raises(DataError, match="min_rows"):
        fresh_world.session.score(day)
    assert published_days(fresh_world.deployment.layout) == [before]


def test_a_missing_column_is_named_and_nothing_is_retried(fresh_world):
    day = fresh_world.days[-1]
    rewrite(source_file(fresh_world, day), lambda table: table.rename_columns({"recency_days": "Recency_Days"}))
    with pytest.raises(DataError, match="recency_days"):
        fresh_world.session.score(day)
    assert fresh_world.instance.get_runs_count() == 1


def test_a_day_run_twice_is_the_same_and_nothing_is_scored_again(fresh_world):
    layout, day = fresh_world.deployment.layout, fresh_world.days[-1]
    fresh_world.session.score(day)
    first, stamp = read_day(layout, day), layout.offline_part(day).stat().st_mtime_ns
    fresh_world.session.score(day)
    assert read_day(layout, day).equals(first)
    assert layout.offline_part(day).stat().st_mtime_ns == stamp


def test_a_changed_source_is_scored_again_and_touches_no_other_day(fresh_world):
    layout = fresh_world.deployment.layout
    before, day = fresh_world.days[-2:]
    for one in (before, day):
        fresh_world.session.score(one)
    other = layout.offline_part(before).read_bytes()
    rewrite(source_file(fresh_world, day), lambda table: table.slice(100))
    fresh_world.session.score(day)
    assert read_day(layout, day).num_rows == 23_470
    assert layout.offline_part(before).read_bytes() == other


def test_a_row_that_is_doubled_in_the_source_is_set_aside(fresh_world):
    layout, day = fresh_world.deployment.layout, fresh_world.days[-1]
    rewrite(source_file(fresh_world, day), lambda table: pa.concat_tables([table, table.slice(0, 5)]))
    fresh_world.session.score(day)
    assert read_day(layout, day).num_rows == 23_570
    kept_aside = pq.ParquetFile(layout.quarantine(day) / "rows.parquet").read()
    assert kept_aside.num_rows == 5
    assert pc.unique(kept_aside["reason"]).to_pylist() == ["user_id: repeated"]


def quarantine_table(event) -> list[dict]:
    return [record.data for record in event.metadata["quarantine_reasons"].records]


def test_rows_set_aside_are_shown_as_a_table_with_examples_and_personal_values_hashed(fresh_world):
    day = fresh_world.days[-1]

    def damage(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index("orders")
        orders = [0, 0, 0, 0, *table["orders"].to_pylist()[4:]]
        return table.set_column(index, "orders", pa.array(orders, pa.int32()))

    rewrite(source_file(fresh_world, day), damage)
    fresh_world.session.score(day)
    key = dg.AssetKey(["purchase_30d", "raw_users"])
    event = fresh_world.instance.get_latest_materialization_event(key).asset_materialization
    (row,) = quarantine_table(event)
    assert (row["reason"], row["rows"]) == ("orders: below the minimum", 4)
    assert row["where"] == "part-0.parquet row 1, part-0.parquet row 2, part-0.parquet row 3"
    spend = str(pq.ParquetFile(source_file(fresh_world, day)).read()["spend_total"][0].as_py())
    assert '"orders": 0' in row["examples"]
    assert f'"{spend}"' not in row["examples"]


def test_a_day_that_fails_for_its_rows_shows_them_too(fresh_world):
    day = fresh_world.days[-1]

    def lose_ids(table: pa.Table) -> pa.Table:
        ids = [None] * 5000 + table["user_id"].to_pylist()[5000:]
        return table.set_column(table.schema.get_field_index("user_id"), "user_id", pa.array(ids, pa.string()))

    rewrite(source_file(fresh_world, day), lose_ids)
    with pytest.raises(DataError, match=r"5000 of 23570 rows of .* were set aside"):
        fresh_world.session.score(day)
    key = dg.AssetKey(["purchase_30d", "raw_users"])
    (record,) = fresh_world.instance.fetch_observations(key, limit=5).records
    observation = record.event_log_entry.asset_observation
    assert observation.partition == str(day)
    assert [(row["reason"], row["rows"]) for row in quarantine_table(observation)] == [("user_id: null", 5000)]
    assert materialized(fresh_world, day) == set()


def test_a_restated_file_is_noticed_and_a_touched_one_is_not(fresh_world):
    from profile_assets.orchestration.restated import restated_days, source_changes

    before, day = fresh_world.days[-2:]
    for one in (before, day):
        fresh_world.session.score(one)
    assert source_changes(fresh_world.deployment) == {before: "same", day: "same"}
    source_file(fresh_world, day).touch()
    assert restated_days(fresh_world.deployment) == []
    rewrite(source_file(fresh_world, day), lambda table: table.slice(1))
    assert restated_days(fresh_world.deployment) == [day]
