"""The four daily assets: read the day, call one function of a room, have it judged, commit, show what happened.

Rooms that need torch or Great Expectations are imported inside the bodies, so that the code server loads quickly.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import time
from collections.abc import Callable, Iterator

import dagster as dg

from profile_assets.orchestration import pictures
from profile_assets.orchestration.canary import canary_metadata, canary_of
from profile_assets.orchestration.carried import tell_of_carrying
from profile_assets.orchestration.choice import choice_metadata, chosen_model
from profile_assets.orchestration.judging import check_results, judged, stop_if_failed
from profile_assets.orchestration.keys import STABLE_BUNDLE, key_of
from profile_assets.orchestration.parity import ONLINE_PARITY, parity_outcomes, utc_now
from profile_assets.orchestration.partitions import daily_partitions
from profile_assets.orchestration.places import gpu_pool
from profile_assets.orchestration.set_aside import rows_set_aside_shown
from profile_assets.orchestration.shell import day_of, shard_logger, working, writing
from profile_assets.profile import Deployment
from profile_assets.quality.gates import check_names
from profile_assets.storage.layout import EXPORT, QUARANTINE_FILE, RAW_USERS, USER_SCORES, USER_SHARDS
from profile_assets.storage.stages import commit
from profile_assets.storage.verdicts import StageVerdict

Decorator = Callable[[Callable[..., "Events"]], dg.AssetsDefinition]
Events = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]

_DESCRIPTIONS = {
    RAW_USERS: "The day's users as the source gave them: cast to the contract, bad rows set aside.",
    USER_SHARDS: "The day's users dealt into files by md5(user_id) modulo their number.",
    USER_SCORES: "A score for every user of the day, by the stable bundle; one file a shard, each its own checkpoint.",
    EXPORT: "The day, visible to readers: one file, swapped in by one rename.",
}
_CHECK_DESCRIPTIONS = {
    "min_rows": "At least quality.min_rows users.",
    "rows_match_read": "Every row read is kept or in quarantine, by count and key-set digest, as both lie on the disk.",
    "row_count_change": "Rows against the newest earlier published day.",
    "row_count_weekday": "Rows against the newest published day of the same weekday.",
    "rows_match_raw": "Exactly the landed users, by count and key-set digest.",
    "unique_ids": "Every user once, in the day and in each shard.",
    "null_rates": "Missing values of each column, over all rows, in the day and in each shard, against the contract.",
    "null_rate_change": "Missing values of each column against the newest earlier published day.",
    "null_rate_weekday": "Missing values of each column against the same weekday.",
    "ranges": "Every value finite and within the contract's bounds.",
    "shard_skew": "Rows of the largest shard over the mean.",
    "suite": "The profile's own Great Expectations suite, on every shard.",
    "rows_match_shards": "Exactly the users of each shard, by count and key-set digest.",
    "scores_valid": "Every score a finite number from 0 to 1.",
    "score_drift": "PSI of the scores against the newest earlier published day, in bins that training fixed.",
    "unknown_categories": "Share of users with a category that training never saw.",
    "feature_drift": "PSI of each feature and of the score against the training rows; by default it only warns.",
    "rows_match_scores": "Exactly the scored users, by count and key-set digest.",
    ONLINE_PARITY: "Lookups hold the table's users, by count and key-set digest, and a sample of them by value.",
}


def daily_assets(deployment: Deployment) -> list[dg.AssetsDefinition]:
    """raw_users -> user_shards -> user_scores -> feature_store_export, under the profile's name."""
    return [
        raw_users(deployment),
        user_shards(deployment),
        user_scores(deployment),
        feature_store_export(deployment),
    ]


def _daily_asset(deployment: Deployment, stage: str, *upstream: str, kinds: set[str]) -> Decorator:
    """Declares a stage to Dagster: its key, its days, what it is made from, and the checks it yields itself."""
    key, days = key_of(deployment, stage), daily_partitions(deployment.profile)
    has_lookups = stage == EXPORT and deployment.export.online is not None
    checks = check_names(has_suite=deployment.profile.quality.suite is not None)[stage]
    checks = (*checks, *([ONLINE_PARITY] if has_lookups else []))
    return dg.asset(
        key=key,
        partitions_def=days,
        deps=[key_of(deployment, name) for name in upstream],
        group_name=deployment.profile.name,
        kinds=kinds,
        description=_DESCRIPTIONS[stage],
        check_specs=[
            dg.AssetCheckSpec(
                name=name, asset=key, partitions_def=days, blocking=True, description=_CHECK_DESCRIPTIONS[name]
            )
            for name in checks
        ],
    )


def raw_users(deployment: Deployment) -> dg.AssetsDefinition:
    """The day's users as the source gave them: cast to the contract, bad rows set aside."""
    layout, contract = deployment.layout, deployment.contract

    @_daily_asset(deployment, RAW_USERS, kinds={"parquet"})
    def raw_users(context: dg.AssetExecutionContext) -> Events:
        from profile_assets.quality.gates import find_baselines, judge_raw
        from profile_assets.users.land import commit_landing, land

        day, began = day_of(context), time.perf_counter()
        with writing(context, deployment, RAW_USERS, day):
            with rows_set_aside_shown(context, layout, day):
                staged = land(deployment.source, contract, day, layout)
            baselines = find_baselines(layout, day)
            outcomes = judge_raw(layout, day, staged, deployment.rules, baselines)
            yield from judged(context, layout, day, staged, outcomes, baselines)
            manifest = commit_landing(layout, day, staged)
        yield dg.MaterializeResult(
            metadata=pictures.stage_metadata(manifest, time.perf_counter() - began)
            | pictures.landing_metadata(manifest, contract, layout.quarantine(day) / QUARANTINE_FILE)
        )

    return raw_users


def user_shards(deployment: Deployment) -> dg.AssetsDefinition:
    """The day's users dealt into n files by md5(user_id) modulo n."""
    layout = deployment.layout

    @_daily_asset(deployment, USER_SHARDS, RAW_USERS, kinds={"parquet"})
    def user_shards(context: dg.AssetExecutionContext) -> Events:
        from profile_assets.quality.gates import find_baselines, judge_shards
        from profile_assets.quality.measures import Meter
        from profile_assets.shards.split import split

        day, began = day_of(context), time.perf_counter()
        with writing(context, deployment, USER_SHARDS, day, reading=[RAW_USERS]):
            meter = Meter(contract=deployment.contract)
            staged = split(layout, day, deployment.profile.shards.count, watch=meter)
            baselines = find_baselines(layout, day)
            outcomes = judge_shards(layout, day, staged, deployment.rules, baselines, meter)
            yield from judged(context, layout, day, staged, outcomes, baselines)
            manifest = commit(layout, day, staged)
        yield dg.MaterializeResult(
            metadata=pictures.stage_metadata(manifest, time.perf_counter() - began)
            | {"shards": pictures.shard_table(manifest)}
        )

    return user_shards


def user_scores(deployment: Deployment) -> dg.AssetsDefinition:
    """A score for every user of the day, by the bundle that the registry's `stable` names, or that the run asks for."""
    layout = deployment.layout
    pool = gpu_pool(deployment.scoring.device)

    @_daily_asset(deployment, USER_SCORES, USER_SHARDS, STABLE_BUNDLE, kinds={"pytorch", "parquet"})
    def user_scores(context: dg.AssetExecutionContext) -> Events:
        from profile_assets.models.bundle_files import read_bins
        from profile_assets.quality.gates import find_baselines, judge_scores
        from profile_assets.scoring.day import score_day

        day, began = day_of(context), time.perf_counter()
        with writing(context, deployment, USER_SCORES, day, reading=[USER_SHARDS], pool=pool):
            model = chosen_model(context, deployment, day)
            canary = canary_of(deployment, model)
            staged = score_day(
                layout, day, model.path, deployment.scoring, canary=canary, progress=shard_logger(context)
            )
            baselines = find_baselines(layout, day)
            others = None if canary is None else read_bins(canary.bundle_path)
            outcomes = judge_scores(
                layout, day, staged, deployment.rules, baselines, read_bins(model.path), canary_bins=others
            )
            yield from judged(context, layout, day, staged, outcomes, baselines)
            manifest = commit(layout, day, staged)
        tell_of_carrying(context, manifest)
        yield dg.MaterializeResult(
            metadata=pictures.stage_metadata(manifest, time.perf_counter() - began)
            | pictures.score_metadata(layout.stage(USER_SCORES, day), manifest)
            | choice_metadata(model)
            | canary_metadata(layout.stage(USER_SCORES, day), manifest)
        )

    return user_scores


def feature_store_export(deployment: Deployment) -> dg.AssetsDefinition:
    """The day, visible to readers: the table by one commit, the lookups by one switch, each in the publish record."""
    layout, profile, export = deployment.layout, deployment.profile, deployment.export

    @_daily_asset(
        deployment, EXPORT, USER_SCORES, kinds={export.offline, *([export.online.store] if export.online else [])}
    )
    def feature_store_export(context: dg.AssetExecutionContext) -> Events:
        from profile_assets.feature_store.publish import publish
        from profile_assets.quality.gates import judge_export

        day, began = day_of(context), time.perf_counter()
        with working(context, deployment, day):
            done = publish(layout, day, time_zone=profile.time_zone, clock=utc_now, export=export)
            outcomes = (*judge_export(layout, day), *parity_outcomes(done))
            verdict = StageVerdict(stage=EXPORT, digest=done.record.verdict_digest, outcomes=outcomes)
            yield from check_results(context.asset_key, verdict, day)
            stop_if_failed(verdict, day)
        yield dg.MaterializeResult(
            metadata=pictures.publication_metadata(done, layout.offline, time.perf_counter() - began)
        )

    return feature_store_export
