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
