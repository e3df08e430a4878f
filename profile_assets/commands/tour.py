"""The commands that make something, with progress for people: prepare, train, backfill, show, and all four in a row."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table

from profile_assets.commands.backfill import backfill
from profile_assets.errors import ProfileError
from profile_assets.feature_store import read
from profile_assets.models.choosing import is_later
from profile_assets.models.registry import read_pointer
from profile_assets.profile import Deployment, open_deployment
from profile_assets.quality.freshness import due_at
from profile_assets.storage.published import PublishRecord, published_days, read_part_record

ONE_DAY = dt.timedelta(days=1)
console = Console(highlight=False)


def quickstart(days: int) -> None:
    """Everything that the demo needs, each step only where it is not done yet."""
    _prepare(_replaying())
    deployment = open_deployment()
    if read_pointer(deployment.layout, "stable") is None:
        train()
    last = _yesterday(deployment)
    backfill(max(deployment.profile.start_day, last - (days - 1) * ONE_DAY), last, again=False)
    show(None)
    console.print("\n[bold]make ui[/] opens the graph at http://127.0.0.1:3000")


def prepare_demo() -> None:
    """The demo's exports up to yesterday."""
    _prepare(_replaying())


def train() -> None:
    """A new bundle, through Dagster; what was learned so far is shown on the way."""
    deployment = open_deployment()
    with _step("training a model") as step:
        from profile_assets.orchestration.launch import session

        with session(deployment) as runs, step.following("profile_assets"):
            bundle_id = runs.train()
        stable = read_pointer(deployment.layout, "stable")
        if stable is not None and stable.bundle_id == bundle_id:
            step.say(f"{bundle_id}, which is stable")
        else:
            step.say(f"{bundle_id}; stable is {stable.bundle_id if stable else 'none'}")
            step.say(f'to score with it: profile-assets models promote {bundle_id} --why "..."')


def show(day: dt.date | None) -> None:
    """The published days, and a few rows of one."""
    deployment = open_deployment()
    days = published_days(deployment.layout)
    if not days:
        raise ProfileError("nothing is published yet", remedy="run `make run`, or backfill a day")
    _show_days(deployment, days[-10:])
    _show_rows(deployment, day or days[-1])


def generate_demo(users: int, days: int, seed: int) -> None:
    """A made-up table of any size."""
    from profile_assets.users.generate import generate

    deployment = open_deployment()
    with _step(f"{users:,} users a day") as step:
        generate(deployment.root, num_users=users, days=_last_days(_yesterday(deployment), days), seed=seed)
        step.say(f"{deployment.root / 'generated'}")


def _replaying() -> Deployment:
    deployment = open_deployment()
    if deployment.profile.replay is None:
        raise ProfileError(
            f"the profile {deployment.profile.name} replays no recorded history",
            remedy="unset PROFILE_CONFIG for the demo, or use train and backfill for a table of your own",
        )
    return deployment


def _prepare(deployment: Deployment) -> None:
    from profile_assets.users.demo import prepare

    with _progress() as bar:
        task = bar.add_task("the demo's daily exports", total=None)
        report = prepare(
            deployment.root, deployment.today(), lambda done, total: bar.update(task, completed=done, total=total)
        )
    console.print(f"[green]✓[/] the demo's daily exports: {report.message}")


def _last_days(last: dt.date, count: int) -> list[dt.date]:
    """`count` days that end with `last`, oldest first."""
    return [last - back * ONE_DAY for back in reversed(range(count))]


def _record(deployment: Deployment, day: dt.date) -> PublishRecord:
    record = read_part_record(deployment.layout, day)
    if record is None:
        raise ProfileError(f"{day} is not published", remedy=f"run `profile-assets backfill {day} {day}`")
    return record


def _yesterday(deployment: Deployment) -> dt.date:
    return deployment.today() - ONE_DAY


class _Step:
    """A step under way: what it says at its end, and lines of a logger shown beside the spinner."""

    def __init__(self, what: str, status: Status) -> None:
        self.said: list[str] = []
        self._what, self._status = what, status

    def say(self, text: str) -> None:
        self.said.append(text)

    @contextmanager
    def following(self, logger_name: str) -> Iterator[None]:
        """Show what that logger is told for as long as this is entered."""
        logger, handler = logging.getLogger(logger_name), logging.Handler()
        before = logger.level
        handler.emit = lambda record: self._status.update(f"{self._what}: {record.getMessage()}")  # type: ignore[method-assign]
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(before)
            logger.removeHandler(handler)


@contextmanager
def _step(what: str) -> Iterator[_Step]:
    """A spinner while the step works, one line when it is done."""
    with console.status(f"{what} ...") as status:
        step = _Step(what, status)
        yield step
    console.print(f"[green]✓[/] {what}{': ' if step.said else ''}{'; '.join(step.said)}")


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)


def _show_days(deployment: Deployment, days: Sequence[dt.date]) -> None:
    records = {day: _record(deployment, day) for day in days}
    notes = {day: _note(deployment, record) for day, record in records.items()}
    table = Table(title=f"{deployment.profile.name}: {deployment.where}/feature_store/offline", title_justify="left")
    for column in ("day", "users", "bundle", "published", *(["note"] if any(notes.values()) else [])):
        table.add_column(column, justify="right" if column == "users" else "left")
    for day, record in records.items():
        published_at = record.targets["offline"].at.isoformat(sep=" ", timespec="seconds")
        cells = (str(day), f"{record.rows:,}", record.bundle_id, published_at, notes[day])
        table.add_row(*cells[: len(table.columns)])
    console.print(table)


def _note(deployment: Deployment, record: PublishRecord) -> str:
    """What is odd about the model of a day."""
    is_new = is_later(deployment.layout, record.bundle_id, due_at(record.day, deployment.due_rule))
    notes = ["the model did not exist yet"] if is_new else []
    if record.canary is not None:
        notes.append(f"{record.canary['rows']:,} by the canary {record.canary['bundle_id']}")
    return "; ".join(notes)


def _show_rows(deployment: Deployment, day: dt.date) -> None:
    rows = read.read_day(deployment.layout, day).sort_by([("score", "descending")]).slice(0, 5).to_pylist()
    table = Table(title=f"the highest scores of {day}", title_justify="left")
    for column in ("user_id", "score"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(row["user_id"], f"{row['score']:.4f}")
    console.print(table)
