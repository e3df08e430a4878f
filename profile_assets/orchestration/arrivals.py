"""The demo's replay: every night the next recorded day arrives in the source folder, as a company's export would.

Only a profile with [replay] gets this. The schedule is on from the start: without it no new day ever comes.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import dagster as dg

from profile_assets.orchestration.shell import dagster_errors
from profile_assets.profile import Deployment


def demo_arrivals(deployment: Deployment) -> dg.Definitions:
    """A job that writes what has arrived by now, and its schedule at 00:30."""
    name = f"{deployment.profile.name}_arrivals"

    @dg.op(name=f"{name}_op")
    def arrive(context: dg.OpExecutionContext) -> None:
        with dagster_errors(context, retry_waits_s=deployment.retry_waits_s):
            from profile_assets.users.demo import prepare

            context.log.info(prepare(deployment.root, deployment.today()).message)

    @dg.job(name=name, executor_def=dg.in_process_executor, description="Writes the recorded days that have arrived.")
    def arrivals() -> None:
        arrive()

    nightly = dg.ScheduleDefinition(
        name=f"{name}_nightly",
        job=arrivals,
        cron_schedule="30 0 * * *",
        execution_timezone=deployment.profile.time_zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    return dg.Definitions(jobs=[arrivals], schedules=[nightly])
