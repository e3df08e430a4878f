"""The sensor that starts a day when its source is ready, and tells once of a day that is due without one.

It and the nightly schedule may both be on: whichever comes first starts the day, and the same files never start it
twice, because each run is tagged with the digest of the source's listing. Both start switched off.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import datetime as dt
from typing import TYPE_CHECKING, Any

import dagster as dg

from profile_assets.errors import TransientError
from profile_assets.orchestration.in_progress import GOING_ON, PARTITION_TAG
from profile_assets.orchestration.keys import day_job_name, key_of, source_sensor_name
from profile_assets.orchestration.waiting import Memory, Waiting, look, newly_late
from profile_assets.profile import Deployment
from profile_assets.quality.freshness import due_at
from profile_assets.storage.layout import RAW_USERS
from profile_assets.users.taking import sighted

if TYPE_CHECKING:  # what define_asset_job gives has no public name
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

SOURCE_TAG = "profile_assets/source"
MINIMUM_INTERVAL_S = 60
_TAG_CHARACTERS = 60  # Dagster allows 63


def source_ready(deployment: Deployment, job: "UnresolvedAssetJobDefinition") -> dg.SensorDefinition:
    """Starts each day of the last week that is not published, once its source is ready."""
    layout, rule, settings = deployment.layout, deployment.due_rule, deployment.source

    @dg.sensor(
        name=source_sensor_name(deployment),
        job=job,
        minimum_interval_seconds=MINIMUM_INTERVAL_S,
        description="Starts a day, from the schedule's hour on, as soon as its source is ready.",
    )
    def source_ready(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        deployment.pull()
        now, memory = dt.datetime.now(dt.UTC), Memory.from_text(context.cursor)
        found, after = look(layout, rule, settings, now, memory)
        late = newly_late(found, memory)
        for one in late:
            context.log.warning(_sentence(one, due_at(one.day, rule)))
        return dg.SensorResult(
            run_requests=[
                request(one.day, one.digest)
                for one in found
                if one.waits_for is None and not _was_started(context.instance, deployment, one)
            ],
            asset_events=[_observation(deployment, one, due_at(one.day, rule)) for one in late],
            cursor=after.to_text(),
        )

    return source_ready


def request(day: dt.date, digest: str) -> dg.RunRequest:
    """A run of a day, marked with the source that it was started for."""
    return dg.RunRequest(
        run_key=f"{day}/{digest}", partition_key=day.isoformat(), tags={SOURCE_TAG: digest[:_TAG_CHARACTERS]}
    )


def night(deployment: Deployment, day: dt.date, now: dt.datetime) -> dg.RunRequest | dg.SkipReason:
    """What the nightly schedule does about a day: start it, unless the profile says what to wait for and it is not
    there. Where it waits for nothing, a day without a source fails by name.
    """
    if deployment.profile.source.ready == "none":
        return dg.RunRequest(partition_key=day.isoformat())
    try:
        sighting = sighted(deployment.source, day, now)
    except TransientError as error:
        return dg.SkipReason(f"the source of {day} cannot be looked at: {error}")
    waits_for = sighting.waits_for or _unseen(deployment)
    if waits_for is not None:
        sensor = source_sensor_name(deployment)
        return dg.SkipReason(f"the source of {day} {waits_for}; the sensor {sensor} starts the day when it is")
    return dg.RunRequest(partition_key=day.isoformat(), tags={SOURCE_TAG: sighting.digest[:_TAG_CHARACTERS]})


def _unseen(deployment: Deployment) -> str | None:
    """A query's rows carry no times: that they lie still is seen by looking twice, which the sensor does."""
    source = deployment.source
    if source.sql is None or not source.stable_for_s:
        return None
    return f"must be seen still for {source.stable_for_s:.0f} s"


def _was_started(instance: dg.DagsterInstance, deployment: Deployment, one: Waiting) -> bool:
    """Whether a run of the day is going on, or these very files, or as many rows, were tried already."""
    partition = {PARTITION_TAG: one.day.isoformat()}
    tried = {**partition, SOURCE_TAG: one.digest[:_TAG_CHARACTERS]}
    name = day_job_name(deployment)
    filters = [
        dg.RunsFilter(job_name=name, tags=partition, statuses=list(GOING_ON)),
        dg.RunsFilter(job_name=name, tags=tried),
    ]
    return any(instance.get_runs_count(filters=one_filter) for one_filter in filters)


def _observation(deployment: Deployment, one: Waiting, due: dt.datetime) -> dg.AssetObservation:
    metadata: dict[str, Any] = {"state": "late", "source": one.waits_for, "due": due.isoformat(timespec="minutes")}
    return dg.AssetObservation(
        key_of(deployment, RAW_USERS),
        partition=one.day.isoformat(),
        description=_sentence(one, due),
        metadata=metadata,
    )


def _sentence(one: Waiting, due: dt.datetime) -> str:
    when = due.isoformat(sep=" ", timespec="minutes")
    return f"{one.day} is due since {when} and its source {one.waits_for}; it starts when the source is ready"
